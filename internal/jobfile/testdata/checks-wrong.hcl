# What Nomad refuses in checks, and what one node has not.
job "checks-wrong" {
  group "g" {
    network {
      port "http" {}
    }

    service {
      port      = "htpt"
      provider  = "konsul"
      on_update = "sometimes"

      check_restart {
        limit = -1
        grace = "-1s"
        times = 3
      }

      check {}

      check {
        name     = "fast"
        type     = "http"
        interval = "999ms"
        timeout  = "soon"
        path     = "http://example.org/"
        inital_status = "fine"
      }

      check {
        name           = "script"
        type           = "script"
        initial_status = "fine"
        interval       = "1s"
        timeout        = "1s"
      }

      check {
        name     = "whose"
        type     = "script"
        command  = "true"
        task     = "ap"
        interval = "1s"
        timeout  = "0s"
      }

      check {
        name     = "odd"
        type     = "docker"
        interval = "1s"
        timeout  = "1s"
        header = {
          A = ["b"]
        }
      }

      check {
        name         = "inside"
        type         = "tcp"
        port         = "8080"
        address_mode = "alloc"
        interval     = "1s"
        timeout      = "1s"
      }

      check {
        name         = "driver"
        type         = "tcp"
        port         = "http"
        address_mode = "driver"
        interval     = "1s"
        timeout      = "1s"
      }
    }

    service {
      provider  = "nomad"
      port      = "http"
      on_update = "ignore_warnings"

      check {
        name     = "native"
        type     = "script"
        command  = "true"
        task     = "app"
        interval = "1s"
        timeout  = "1s"
      }

      check {
        name                    = "counted"
        type                    = "http"
        path                    = "/"
        tls_server_name         = "x"
        notes                   = "${format("%256d", 0)}"
        interval                = "1s"
        timeout                 = "1s"
        failures_before_warning = 1

        header {
          A = "b"
        }
      }

      check {
        name      = "lenient"
        type      = "tcp"
        on_update = "ignore"
        interval  = "1s"
        timeout   = "1s"

        check_restart {
          limit           = 1
          ignore_warnings = true
        }
      }
    }

    service {
      check {
        name      = "loose"
        type      = "tcp"
        on_update = "ignore"
        interval  = "1s"
        timeout   = "1s"

        check_restart {
          limit = 1
        }
      }

      check {
        name      = "half"
        type      = "http"
        port      = "http"
        on_update = "ignore_warnings"
        interval  = "1s"
        timeout   = "1s"

        check_restart {
          limit = 1
        }
      }
    }

    task "app" {
      driver = "wardyn"
      config {
        image = "x"
      }

      service {
        task = "other"
        port = "http"

        check {
          name     = "twice"
          type     = "tcp"
          interval = "1s"
          timeout  = "1s"
        }

        check {
          name     = "twice"
          type     = "tcp"
          task     = "other"
          port     = 8080
          interval = "1s"
          timeout  = "1s"
        }
      }
    }
  }
}
