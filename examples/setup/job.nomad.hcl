# An agent whose tools are installed once and whose work is kept.
variable "image" {
  type    = string
  default = "alpine:3"
}

job "setup" {
  type = "batch"

  group "main" {
    task "agent" {
      driver = "wardyn"

      template {
        destination = "local/setup.sh"
        data        = <<-EOT
          # Runs once as root; the next task starts from its result.
          mkdir -p /opt/tool
          echo "#!/bin/sh" > /opt/tool/greet
          echo "echo hello from the tool" >> /opt/tool/greet
          chmod 755 /opt/tool/greet
          echo installed
        EOT
      }

      config {
        image       = var.image
        confinement = "CC1"
        command     = "sh"
        args        = ["-c", "/opt/tool/greet; echo x >> log; echo \"start $(wc -l < log)\""]

        setup {
          file    = "local/setup.sh"
          timeout = "10m"
        }
        init {
          script = "echo \"in $PWD\""
        }
        workspace {
          volume = "example"
        }
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
