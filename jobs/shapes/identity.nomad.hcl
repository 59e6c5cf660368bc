# Workload identity as files, with a task that reads them. Runs where the operator
# lets jobs mount /secrets.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-identity" {
  type = "service"

  group "bot" {
    network {
      mode = "bridge"
      port "http" {
        to = 9112
      }
    }

    task "bot" {
      driver = "wardyn"

      identity {
        env  = true
        file = true
      }

      identity {
        name        = "api"
        aud         = ["nomad.io"]
        file        = true
        ttl         = "1h"
        change_mode = "noop"
      }

      config {
        image         = var.image
        command       = "/bin/sh"
        args          = ["-c", "ls -l /secrets; id -u; echo started; exec sleep 1000"]
        ports         = ["http"]
        mount_secrets = true
      }

      template {
        destination = "secrets/env"
        env         = true
        data        = <<EOF
LOGIN_JWT_FILE=/secrets/nomad_api.jwt
WEBHOOK_SECRET={{ with nomadVar "nomad/jobs/shape-identity" }}{{ .webhook }}{{ end }}
EOF
      }

      shutdown_delay = "5s"

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
