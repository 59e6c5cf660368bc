# Counts what it is sent: SIGUSR1 is said, SIGTERM ends it with code 7.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

job "signals" {
  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "signals" {
      driver       = "wardyn"
      kill_timeout = "10s"

      config {
        image       = var.image
        command     = "/bin/sh"
        args        = ["/local/signals.sh"]
        confinement = var.class
      }

      template {
        destination = "local/signals.sh"
        data        = <<-SCRIPT
          trap 'echo got USR1' USR1
          trap 'echo got TERM; exit 7' TERM
          echo ready
          n=0
          while :; do
            sleep 0.2
            n=$((n + 1))
            echo "tick $n"
          done
        SCRIPT
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
