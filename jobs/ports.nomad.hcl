# Serves a page: what comes to the group's port goes
# through the sidecar into the sandbox.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

variable "mode" {
  type    = string
  default = "host"
}

job "ports" {
  group "main" {
    network {
      mode = var.mode
      port "http" {
        to = 8080
      }
    }

    restart {
      attempts = 0
      mode     = "fail"
    }

    service {
      name     = "preview"
      provider = "nomad"
      port     = "http"
      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "web" {
      driver = "wardyn"

      config {
        image       = var.image
        command     = "/bin/sh"
        args        = ["/local/serve.sh"]
        confinement = var.class
        ports       = ["http"]
      }

      template {
        destination = "local/serve.sh"
        data        = <<-SCRIPT
          mkdir /local/www
          echo "served from port $NOMAD_PORT_http" > /local/www/index.html
          httpd -f -p "$NOMAD_PORT_http" -h /local/www &
          trap 'exit 0' TERM
          echo ready
          while :; do sleep 1; done
        SCRIPT
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
