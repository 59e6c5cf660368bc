# Credentials that the task uses and never holds: one rendered by a template,
# one of the operator's, and a git token behind the broker. A host that no list
# names is put to a reviewer.
#
# The plugin's config needs credential "corp" and git_grant "github".
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

job "credentials" {
  type = "service"

  group "main" {
    task "agent" {
      driver = "wardyn"

      config {
        image       = var.image
        idle        = true
        confinement = var.class

        egress {
          allow     = ["api.example.internal", "corp.example.internal:443"]
          first_use = "deny_with_review"
        }

        inject "model" {
          host        = "api.example.internal"
          header      = "x-api-key"
          secret_file = "secrets/model.key"
        }

        inject "corp" {
          host       = "corp.example.internal"
          credential = "corp"
        }

        git "web" {
          repo  = "acme/web"
          grant = "github"
        }
      }

      template {
        destination = "secrets/model.key"
        data        = "rendered-into-the-secrets-folder"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
