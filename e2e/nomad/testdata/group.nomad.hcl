# A group of two drivers: ours serves a page, and a docker task of the same
# group fetches it over the group's loopback.
variable "image" {
  type = string
}

job "group" {
  group "main" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    restart {
      attempts = 0
      mode     = "fail"
    }

    service {
      name     = "group"
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
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "mkdir /tmp/www; echo served from port $NOMAD_PORT_http > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"]
        ports   = ["http"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }

    task "neighbour" {
      driver = "docker"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "while :; do wget -q -O - http://127.0.0.1:8080/; sleep 1; done"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
