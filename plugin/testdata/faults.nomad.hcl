# Mistakes in what is supported.
job "faults" {
  group "g" {
    task "t" {
      driver = "wardyn"
      env {
        WARDYN_PROXY_URL = "http://elsewhere"
      }
      config {
        command     = "true"
        idle        = true
        entrypoint  = "sh -c"
        work_dir    = "relative"
        hostname    = "a..b"
        confinement = "CC1"
        runtime     = "runsc"
        pids_limit  = -1
        shm_size    = "lots"
        volumes = [
          "/srv/db:/data",
          "secrets:/s",
          "local/a:/proc/x",
          "local/a:/alloc",
          "local/a:/etc",
          "local/a:relative",
          "local/a:/w",
          "local/b:/w/",
          "local/a:/x:shared",
          "local",
        ]
        ulimit {
          nofile = "10:5"
          nosuch = "1"
        }
        sysctl = {
          "net.ipv6.conf.all.disable_ipv6" = "0"
        }
        labels = {
          "wardyn.run-id"                = "x"
          "com.hashicorp.nomad.alloc_id" = "x"
        }
        egress {
          allow   = ["*.com", "https://x.example/"]
          deny    = ["a.example:0"]
          methods = ["TRACE", "G E T"]
        }
      }
    }
  }
}
