job "j" {
  group "g" {
    task "t" {
      driver = "wardyn"
      user   = "1000:1000"

      config {
        image           = "registry.example.org/agent:1"
        command         = "sh"
        args            = ["-c", "echo hello world"]
        confinement     = "CC2"
        work_dir        = "/workspace"
        tty             = true
        readonly_rootfs = true
        cap_add         = ["chown"]
        pids_limit      = 200
        shm_size        = "128m"
        volumes         = ["local/conf:/etc/conf:ro", "alloc/data:/data"]
        mount_secrets   = true
        labels          = { team = "web" }
        ports           = ["http"]
        tmpfs           = ["/scratch:size=32m"]
        force_pull      = true
        ulimit          = { nofile = "1024:2048" }
        sysctl          = { "net.ipv4.tcp_fin_timeout" = "20" }

        egress {
          allow   = ["api.example.com", "files.example.org:443"]
          deny    = ["bad.example.com"]
          methods = ["get", "connect"]
        }

        workspace {
          volume = "alice"
        }

        home {
          volume = "alice"
          path   = "/home/agent"
        }

        setup {
          script = "apk add git < /dev/null"
        }

        init {
          script = "echo ready"
        }
      }

      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
      }
    }
  }
}
