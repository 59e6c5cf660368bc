# Nobody listens on the port of the group's check.
job "groupcheck" {
  group "g" {
    network {
      port "web" {}
    }
    restart {
      attempts = 1
      delay    = "0s"
    }

    service {
      provider = "nomad"
      port     = "web"
      check {
        name     = "web"
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"

        check_restart {
          limit = 1
          grace = "0s"
        }
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
    }
  }
}
