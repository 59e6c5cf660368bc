# A sidecar that starts before the main task and ends after it, and a last task
# when all is over. Nomad keeps no output of the sidecar's.
variable "image" {
  type = string
}

variable "type" {
  type    = string
  default = "batch"
}

job "lifecycle" {
  type = var.type

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "sidecar" {
      driver = "wardyn"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "trap 'echo TERM > /alloc/data/ended; exit 0' TERM; echo unheard; echo up > /alloc/data/up; while :; do sleep 0.2; done"]
      }

      logs {
        disabled = true
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "main" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "until [ -e /alloc/data/up ]; do sleep 0.2; done; echo sidecar is $(cat /alloc/data/up)"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "last" {
      driver = "wardyn"

      lifecycle {
        hook = "poststop"
      }

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "echo sidecar ended by $(cat /alloc/data/ended)"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
