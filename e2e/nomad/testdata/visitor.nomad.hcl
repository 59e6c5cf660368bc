# An allocation of another driver that fetches a page of the node's.
variable "image" {
  type = string
}

variable "url" {
  type = string
}

job "visitor" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "visitor" {
      driver = "docker"

      config {
        image        = var.image
        network_mode = "host"
        command      = "/bin/wget"
        args         = ["-q", "-O", "-", var.url]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
