variable "image" {
  type    = string
  default = "alpine:3"
}

variable "class" {
  type    = string
  default = "CC1"
}

job "coding-agent" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "agent" {
      driver = "wardyn"

      config {
        image       = var.image
        command     = "/bin/sh"
        args        = ["/local/agent.sh"]
        confinement = var.class

        egress {
          allow   = ["model.example.internal:8080", "packages.example.internal:8080"]
          methods = ["GET", "POST"]
        }
      }

      # The stand-in agent. A real one comes with its image.
      template {
        destination = "local/agent.sh"
        data        = <<-SCRIPT
          set -e
          echo "agent: asking the model"
          plan=$(wget -q -O - --post-data '{"prompt":"fix the failing test"}' http://model.example.internal:8080/v1/messages)
          echo "agent: the model says: $plan"

          echo "agent: fetching a package"
          wget -q -O /local/package http://packages.example.internal:8080/left-pad-1.0.tgz
          echo "agent: got $(cat /local/package)"

          echo "agent: phoning home"
          if wget -q -O - http://telemetry.example.com/ping 2>/local/telemetry.err; then
            echo "agent: telemetry went out"
            exit 1
          fi
          echo "agent: telemetry refused: $(cat /local/telemetry.err)"

          echo "patched by the agent" >/alloc/data/result.txt
          echo "agent: done"
        SCRIPT
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
