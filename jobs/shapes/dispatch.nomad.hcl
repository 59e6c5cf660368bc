# A parameterized batch job with a payload, and a code that is the shell's.
# Runs.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-dispatch" {
  type = "batch"

  parameterized {
    payload       = "optional"
    meta_required = ["backup_name"]
    meta_optional = ["table"]
  }

  group "restore" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "restore" {
      driver = "wardyn"

      dispatch_payload {
        file = "input.json"
      }

      env {
        TABLE = "${NOMAD_META_table}"
      }

      config {
        image      = var.image
        entrypoint = ["/bin/sh", "-c"]
        args = [
          "cat $NOMAD_TASK_DIR/input.json; echo restore $NOMAD_META_backup_name table ${NOMAD_META_table}; exit 3"
        ]
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
