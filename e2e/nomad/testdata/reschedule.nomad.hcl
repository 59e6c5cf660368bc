# Fails once and is placed anew; a named workspace counts the attempts.
variable "image" {
  type = string
}

job "reschedule" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 1
      interval  = "1h"
      delay     = "5s"
      unlimited = false
    }

    task "main" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "echo x >> /workspace/attempts; echo attempt $(wc -l < /workspace/attempts); [ $(wc -l < /workspace/attempts) -gt 1 ]"]

        workspace {
          volume = "attempts"
        }
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
