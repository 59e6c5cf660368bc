# Everything that is honoured, each thing once.
variable "image" {
  type    = string
  default = "busybox:1.36"
}

variables {
  who = "world"
}

locals {
  greeting = "hello ${local.subject}"
  subject  = upper(var.who)
  common = {
    A = "1"
    B = local.greeting
  }
}

job "full" {
  id          = "full-id"
  name        = "full name"
  namespace   = "agents"
  type        = "batch"
  datacenters = ["*"]
  priority    = 70

  meta {
    owner = "job"
    level = "job"
  }

  group "g" {
    count = 1

    meta = {
      "dotted.key" = "group"
      level        = "group"
    }

    network {
      mode = "bridge"
      port "http" {
        static = 18080
        to     = 8080
      }
      port "debug" {}
      dns {
        servers = ["192.0.2.1"]
      }
    }

    restart {
      attempts = 1
      interval = "1m"
      delay    = "1s"
      mode     = "delay"
    }

    ephemeral_disk {
      size = 100
    }

    task "first" {
      driver       = "wardyn"
      user         = "nobody"
      leader       = true
      kill_timeout = "150s"
      kill_signal  = "SIGINT"

      config {
        image = var.image
        args  = ["-c", "echo ${local.greeting} in ${NOMAD_ALLOC_ID} $${literal}"]
      }

      env {
        COUNT  = 3
        RATIO  = 1.5
        ON     = true
        NODE   = "${node.unique.id}"
        OTHER  = env["HOME"]
        ABSENT = null
      }

      meta {
        level = "task"
      }

      restart {
        attempts = 0
        mode     = "fail"
      }

      logs {
        max_files     = 2
        max_file_size = 5
      }

      template {
        destination     = "local/a.conf"
        perms           = "0600"
        uid             = 1000
        gid             = 1000
        left_delimiter  = "[["
        right_delimiter = "]]"
        data            = <<EOT
id [[ env "NOMAD_ALLOC_ID" ]]
shell ${HOME} and $USER
EOT
      }

      template {
        destination          = "secrets/env"
        env                  = true
        change_mode          = "signal"
        change_signal        = "SIGHUP"
        error_on_missing_key = true
        data                 = "X=1\n"
      }

      resources {
        cpu        = 250
        memory     = 64
        memory_max = 128
      }
    }

    task "second" {
      driver = "wardyn"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        image = "${var.image}"
      }
      env = merge(local.common, { C = format("%03d", 7) })
      resources {
        cores      = 2
        memory_max = -1
      }
      logs {
        disabled = true
      }
    }
  }
}
