# What comes before a command, and what outlives it.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

variable "user" {
  type    = string
  default = "1000"
}

job "session" {
  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "agent" {
      driver = "wardyn"
      user   = var.user

      template {
        destination = "local/init.sh"
        data        = <<-EOT
          echo "init as $(id -u) in $PWD"
          echo started >> /workspace/log
          echo remembered >> /home/agent/notes
          sleep 600 &
        EOT
      }

      config {
        image       = var.image
        confinement = var.class
        command     = "sh"
        args        = ["-c", "wc -l < log; wc -l < /home/agent/notes; stat -c %u /workspace/log; exit 5"]

        init {
          file    = "local/init.sh"
          timeout = "1m"
        }
        workspace {
          volume = "session-test"
        }
        home {
          volume = "session-test"
          path   = "/home/agent"
        }
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
