job "who" {
  group "g" {
    task "t" {
      driver = "wardyn"

      identity {
        env = true
        ttl = "1h"
      }

      identity {
        file = true
      }

      identity {
        name = "a b"
      }

      identity {
        name = "negative"
        ttl  = "-1s"
      }

      identity {
        name = "lasting"
        ttl  = "long"
        aud  = ["x", ""]
      }

      identity {
        name        = "deaf"
        change_mode = "signal"
      }

      identity {
        name          = "empty"
        change_mode   = "signal"
        change_signal = ""
      }

      identity {
        name          = "loud"
        change_mode   = "restart"
        change_signal = "SIGHUP"
      }

      identity {
        name        = "script"
        change_mode = "script"
      }

      identity {
        name     = "nowhere"
        filepath = "local/x.jwt"
      }

      identity {
        name     = "outside"
        file     = true
        filepath = "../../etc/passwd"
      }

      identity {
        name     = "deep"
        file     = true
        filepath = "local/new/x.jwt"
      }

      identity {
        name = "negative"
      }

      identity {
        named = "typo"
        env {}
      }

      identity {
        name          = "bare"
        change_mode   = "signal"
        change_signal = "HUP"
      }

      config {
        image = "x"
      }
    }
  }
}
