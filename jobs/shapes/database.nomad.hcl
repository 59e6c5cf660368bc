# A database: a user of the image, SIGINT and 90 s to stop, a script check.
# Runs.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-database" {
  type = "service"

  group "pg" {
    network {
      mode = "bridge"
      port "db" {
        to = 5432
      }
    }

    service {
      name     = "shape-database"
      provider = "consul"
      port     = "db"

      check {
        name     = "tcp"
        type     = "tcp"
        interval = "30s"
        timeout  = "10s"
      }

      check {
        name                     = "ready"
        type                     = "script"
        task                     = "postgres"
        command                  = "pg_isready"
        args                     = ["-U", "app"]
        interval                 = "30s"
        timeout                  = "10s"
        success_before_passing   = 3
        failures_before_critical = 3

        check_restart {
          limit = 3
          grace = "60s"
        }
      }
    }

    task "postgres" {
      driver       = "wardyn"
      user         = "postgres"
      kill_timeout = "90s"
      kill_signal  = "SIGINT"

      env {
        PATH          = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/17/bin"
        POSTGRES_USER = "app"
        PGDATA        = "/alloc/data/pg"
      }

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "trap 'echo got INT; exit 0' INT; id -un; echo up; while :; do sleep 1; done"]
        ports   = ["db"]

        labels = {
          "example.application.name"    = "pg"
          "example.application.version" = "17"
        }
      }

      template {
        destination = "secrets/pg.env"
        env         = true
        data        = "POSTGRES_PASSWORD={{ with nomadVar \"nomad/jobs/shape-database\" }}{{ .password }}{{ end }}\n"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
