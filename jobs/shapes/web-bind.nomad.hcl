# A service in a bridge group: dynamic port with `to`, entrypoint as a list,
# rendered files bound into the image by relative sources, a host volume.
# Runs.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-web-bind" {
  type = "service"

  group "web" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    volume "state" {
      type   = "host"
      source = "shape-state"
    }

    service {
      name     = "shape-web-bind"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "app" {
      driver = "wardyn"
      user   = "root"

      config {
        image      = var.image
        ports      = ["http"]
        entrypoint = ["httpd", "-f", "-v", "-p", "8080", "-h", "/srv", "-c", "/etc/httpd.conf"]

        mount {
          type   = "bind"
          source = "local/httpd.conf"
          target = "/etc/httpd.conf"
        }

        mount {
          type     = "bind"
          source   = "configs"
          target   = "/srv"
          readonly = true
        }
      }

      template {
        destination = "local/httpd.conf"
        change_mode = "restart"
        data        = "A:*\n"
      }

      template {
        destination = "configs/index.html"
        change_mode = "restart"
        data        = "alloc {{ env \"NOMAD_ALLOC_ID\" }}\n"
      }

      volume_mount {
        volume      = "state"
        destination = "/var/lib/app"
        read_only   = false
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
