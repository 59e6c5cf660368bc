# A periodic batch job that reads a folder of the host. Runs where the operator
# lists the folder, else the volume is refused.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-periodic" {
  type = "batch"

  periodic {
    crons            = ["0 2,8,14,20 * * *"]
    prohibit_overlap = true
    time_zone        = "Etc/UTC"
  }

  group "backup" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "backup" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "echo backup_$(date +%F_%H-%M) && du -s /data"]

        volumes = ["/srv/db:/data:ro"]
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
