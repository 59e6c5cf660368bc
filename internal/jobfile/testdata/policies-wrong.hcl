job "policies" {
  group "g" {
    network {
      port "http" {}
    }

    restart {
      attempts = 10
      interval = "4s"
      delay    = "1s"
    }

    service {
      name         = "under_score"
      address_mode = "nowhere"
    }

    service "label" {
      name         = "${NOMAD_TASK_NAME}-x"
      port         = "http"
      address      = "a.example"
      address_mode = "host"
    }

    task "t" {
      driver = "wardyn"

      restart {
        attempts = 0
        interval = "1m"
        mode     = "delay"
      }

      identity "named" {}

      service {
        name = "s"
        port = "http"

        check {
          type         = "tcp"
          interval     = "10s"
          timeout      = "2s"
          expose       = true
          address_mode = "alloc"
        }
      }

      config {
        image = "x"
      }
    }
  }
}
