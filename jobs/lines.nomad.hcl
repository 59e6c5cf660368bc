# Output under load: numbered lines on both streams, as fast as they go.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

variable "lines" {
  type    = number
  default = 200000
}

job "lines" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "lines" {
      driver = "wardyn"

      config {
        image       = var.image
        command     = "/bin/sh"
        args        = ["-c", "seq ${var.lines} | sed 's/^/err /' >&2 & seq ${var.lines} | sed 's/^/out /'; wait; exit 5"]
        confinement = var.class
      }

      logs {
        max_files     = 2
        max_file_size = 50
      }

      resources {
        cpu    = 500
        memory = 128
      }
    }
  }
}
