# One thing in the ways in which job files spell it. The first two tasks run,
# the third is refused for port_map.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-spellings" {
  type = "batch"

  group "g" {
    network {
      port "db" {
        to = 6379
      }
    }

    task "block-forms" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "true"
        ports   = ["db"]

        labels {
          group = "cache"
        }

        ulimit {
          nofile  = "65536"
          memlock = "-1"
        }

        mount {
          type   = "tmpfs"
          target = "/scratch"
          tmpfs_options {
            size = 16777216
          }
        }
      }
    }

    task "map-forms" {
      driver = "wardyn"

      config {
        image          = var.image
        command        = "true"
        cpu_hard_limit = "true"

        labels = {
          "example.enable"   = "true"
          "example.max_tags" = 3
        }

        ulimit = {
          nofile = "65536:65536"
        }

        sysctl = {
          "net.ipv4.ip_unprivileged_port_start" = "0"
        }

        mounts = [
          {
            type     = "bind"
            source   = "local"
            target   = "/opt/app"
            readonly = true
          }
        ]
      }
    }

    task "old-forms" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "true"

        port_map {
          db = 6379
        }

        labels = [
          {
            tier = "cache"
          },
          {
            team = "data"
          }
        ]

        devices = []
      }
    }
  }
}
