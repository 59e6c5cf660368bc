variable "nothing" {
  default = ""
}

job "who" {
  type = "batch"

  group "g" {
    task "every-form" {
      driver = "wardyn"

      identity {
        file = true
        aud  = ["nomadproject.io"]
      }

      identity {
        name          = "api"
        aud           = ["api.example.org", "other.example.org"]
        env           = true
        file          = true
        filepath      = "/local/who.jwt"
        ttl           = "90m"
        change_mode   = "signal"
        change_signal = "sighup"
        service_name  = "x"
      }

      identity {
        name        = "vault_default-1"
        aud         = ["vault.io"]
        ttl         = "5s"
        change_mode = var.nothing
      }

      identity {
        name         = "shared"
        file         = true
        filepath     = "../alloc/data/shared.jwt"
        change_mode  = "restart"
        extra_claims = ["unit"]
      }

      config {
        image = "x"
      }
    }

    task "default" {
      driver = "wardyn"

      identity {
        name = "default"
        aud  = ["somebody"]
        env  = true
      }

      config {
        image = "x"
      }
    }

    task "none" {
      driver = "wardyn"

      config {
        image = "x"
      }
    }
  }
}
