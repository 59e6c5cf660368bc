# A sandbox that idles until somebody executes something in it.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

job "workspace" {
  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "shell" {
      driver = "wardyn"

      config {
        image       = var.image
        idle        = true
        confinement = var.class
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
