# Checks of a group's and a task's services, with all that they inherit.
job "checks" {
  group "g" {
    network {
      port "http" {
        to = 8080
      }
      port "rpc" {}
    }

    service {
      name = "web"
      port = "http"
      task = "app"
      on_update = "ignore_warnings"
      address   = "203.0.113.7"

      check_restart {
        limit           = 2
        ignore_warnings = true
      }

      check {
        name     = "page"
        type     = "http"
        path     = "/health?from=${NOMAD_ALLOC_ID}"
        method   = "POST"
        protocol = "https"
        body     = "ping"
        interval = "10s"
        timeout  = "2s"
        expose   = true

        tls_skip_verify = true
        tls_server_name = "web.example.org"

        header {
          Authorization = ["Basic abc"]
          X-Twice       = ["a", "b"]
        }

        success_before_passing   = 2
        failures_before_critical = 3
        failures_before_warning  = 1

        check_restart {
          limit = 5
          grace = "1m"
        }
      }

      check {
        type         = "grpc"
        port         = "rpc"
        grpc_service = "a.B"
        grpc_use_tls = true
        interval     = "1s"
        timeout      = "1s"
        address_mode = "alloc"

        success_before_passing = -1
      }

      check {
        name     = "ready"
        type     = "script"
        command  = "/bin/ready"
        args     = ["-u", "${NOMAD_TASK_NAME}"]
        interval = "10s"
        timeout  = "2s"

        failures_before_critical = 3
      }

      check {
        type     = "TCP"
        port     = 1234
        interval = "10s"
        timeout  = "2s"
        on_update = "require_healthy"
      }
    }

    service {
      name = "no-checks"
      port = "whatever"
    }

    task "app" {
      driver = "wardyn"
      config {
        image = "x"
      }
    }

    task "side" {
      driver = "wardyn"
      config {
        image = "x"
      }

      service {
        name     = "side"
        provider = "nomad"
        port     = "rpc"

        check {
          type           = "tcp"
          initial_status = "warning"
          interval       = "10s"
          timeout        = "2s"

          check_restart {
            limit = 0
          }
        }
      }
    }
  }
}
