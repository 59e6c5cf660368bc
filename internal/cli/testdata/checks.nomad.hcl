# Two tasks that run until they are stopped, with checks of their services.
job "checks" {
  group "g" {
    network {
      port "web" {}
    }
    restart {
      attempts = 1
      delay    = "1s"
    }

    service {
      port = "web"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
      check {
        name     = "ready"
        type     = "script"
        task     = "a"
        command  = "2"
        args     = ["${NOMAD_TASK_NAME}", "${NOMAD_ALLOC_ID}"]
        interval = "5m"
        timeout  = "1s"
      }
    }

    task "a" {
      driver = "wardyn"
      config {
        image = "x"
        hang  = "yes"
      }
    }

    task "b" {
      driver = "wardyn"
      config {
        image = "x"
        hang  = "yes"
      }

      service {
        check {
          name     = "fine"
          type     = "script"
          command  = "0"
          interval = "1s"
          timeout  = "1s"
        }
        check {
          name     = "hangs"
          type     = "script"
          command  = "hang"
          interval = "1s"
          timeout  = "1s"

          check_restart {
            limit = 1
            grace = "0s"
          }
        }
      }
    }
  }
}
