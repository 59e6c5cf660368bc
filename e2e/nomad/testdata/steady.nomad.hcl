# A service that ticks, for what happens to a service: updates, limits, a node
# that goes away or begins anew.
variable "image" {
  type = string
}

variable "version" {
  type    = string
  default = "1"
}

variable "node" {
  type    = string
  default = "node"
}

job "steady" {
  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

  update {
    max_parallel     = 1
    canary           = 1
    health_check     = "task_states"
    min_healthy_time = "1s"
    healthy_deadline = "2m"
  }

  group "main" {
    disconnect {
      lost_after = "10m"
    }

    restart {
      attempts = 3
      interval = "10m"
      delay    = "1s"
      mode     = "fail"
    }

    task "steady" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["/local/tick.sh"]
      }

      env {
        VERSION = var.version
      }

      template {
        destination = "local/tick.sh"
        data        = <<-SCRIPT
          trap 'echo got TERM; exit 0' TERM
          echo version $VERSION may have ${NOMAD_MEMORY_LIMIT} MiB and at most $${NOMAD_MEMORY_MAX_LIMIT:-no more}
          n=0
          while :; do
            sleep 0.2
            n=$((n + 1))
            echo "tick $n"
          done
        SCRIPT
      }

      resources {
        cpu        = 100
        memory     = 64
        memory_max = 128
      }
    }
  }
}
