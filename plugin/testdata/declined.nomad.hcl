# Options that come later, and those of other drivers: each refused by name.
job "declined" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image   = "busybox:1"
        runtime = "kata"
        record  = true
        ports   = ["preview"]
        init {
          file = "local/init.sh"
        }
        inject "anthropic" {
          host        = "api.anthropic.com"
          header      = "x-api-key"
          secret_file = "secrets/anthropic.key"
        }
        repo {
          owner = "acme"
          name  = "web"
        }
        setup {
          file = "local/setup.sh"
        }
        home {
          volume = "home-alice"
          path   = "/home/agent"
        }
        workspace {
          volume = "w"
        }
        egress {
          first_use = "wait_for_review"
          intercept = ["api.anthropic.com"]
        }

        privileged   = true
        network_mode = "bridge"
        devices = [
          {
            host_path = "/dev/video0"
          }
        ]
        port_map {
          db = 6379
        }
        security_opt = ["apparmor=unconfined"]
        extra_hosts  = ["db:10.0.0.1"]
        mount {
          type   = "tmpfs"
          target = "/scratch"
        }
        mounts = [
          {
            type   = "bind"
            source = "local"
            target = "/opt/app"
          }
        ]
        auth {
          username = "u"
          password = "hunter2"
        }
        logging {
          type = "json-file"
        }
        force_pull = true
        pid_mode   = "host"
      }
    }
  }
}
