# Fails three times: at first and after each of two restarts. The number of the
# attempt is kept in the allocation's folder.
variable "image" {
  type = string
}

job "restart" {
  type = "batch"

  group "main" {
    restart {
      attempts = 2
      interval = "10m"
      delay    = "1s"
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "main" {
      driver         = "wardyn"
      shutdown_delay = "1s"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "echo x >> /alloc/data/attempts; echo attempt $(wc -l < /alloc/data/attempts); exit 4"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
