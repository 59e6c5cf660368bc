# A task that shares its CPUs, and beside it as many with one of their own as are
# asked for.
variable "image" {
  type = string
}

variable "reserved" {
  type = number
}

job "cores" {
  group "shared" {
    task "sleeper" {
      driver = "wardyn"

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
  }

  group "reserved" {
    count = var.reserved

    task "sleeper" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sleep"
        args    = ["100000"]
      }

      resources {
        cores  = 1
        memory = 64
      }
    }
  }
}
