# A service whose workspace goes on from one allocation to the next.
variable "image" {
  type = string
}

variable "version" {
  type    = string
  default = "1"
}

job "sticky" {
  group "main" {
    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 300
    }

    task "main" {
      driver = "wardyn"
      user   = "1000"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "echo ${var.version} >> versions; echo at $(pwd) as $(id -u) saw $(cat versions) of $(stat -c %u versions); exec sleep 3600"]

        workspace {}
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
