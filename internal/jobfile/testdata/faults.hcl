# One of each mistake; all of them are told at once.
job "faults" {
  type = "services"
  proirity = 3
  group "g" {
    network {
      port {}
      port "a" {
        static = 0
        to     = "x"
      }
    }
    restart {
      attempts = -1
      interval = "5"
      delay    = "-5s"
      mode     = "never"
    }
    restart {}
    task "t" {
      drvier = "wardyn"
      config = {
        image = "x"
      }
      kill_timeout = "soon"
      user {
        name = "x"
      }
      resources {
        cpu        = 0
        cores      = 1
        memory     = 64
        memory_max = 32
      }
      logs {
        max_files = 0
      }
      lifecycle {
        hook = "poststart "
      }
      template {
        destination = "local/x"
        perms       = "0999"
        change_mode = "signal"
        data        = <<EOT
one
{{ if }}
EOT
      }
      template {
        data = "x"
      }
    }
    task "t" {
      driver = "wardyn"
      config {
        x = 1
        x {
        }
        missing = nofunction("a")
        bad     = upper()
      }
    }
    task "empty" {
      driver = "wardyn"
      config {}
    }
  }
  group "g" {
    task "only" {
      driver = "wardyn"
      config {
        image = "x"
      }
      lifecycle {
        hook = "prestart"
      }
    }
  }
}
