# Tasks of two drivers on one engine, those of ours with all that the other's
# clean-up goes by: mounts at /alloc, /local and /secrets.
variable "image" {
  type = string
}

variable "passing" {
  type        = string
  description = "an image that is used once"
}

job "beside" {
  group "ours" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    dynamic "task" {
      for_each = ["CC1", "CC2"]
      labels   = [lower(task.value)]

      content {
        driver = "wardyn"

        config {
          image         = var.image
          command       = "/bin/sleep"
          args          = ["100000"]
          confinement   = task.value
          mount_secrets = true

          workspace {
            volume = "beside-${lower(task.value)}"
          }
        }

        resources {
          cpu    = 100
          memory = 128
        }
      }
    }
  }

  group "theirs" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "docker" {
      driver = "docker"

      config {
        image   = var.image
        command = "/bin/sleep"
        args    = ["100000"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }

    task "passing" {
      driver = "docker"

      lifecycle {
        hook = "prestart"
      }

      config {
        image   = var.passing
        command = "/bin/true"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
