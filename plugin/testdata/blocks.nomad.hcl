# The same options as blocks, written twice where that is in use.
job "blocks" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image      = "busybox:1"
        entrypoint = ["/bin/sh", "-c"]
        args       = ["exit 3"]
        init       = false

        labels {
          tier = "cache"
          kept = "no"
        }
        labels {
          kept = "yes"
        }
        ulimit {
          nofile  = "65536"
          memlock = "-1"
        }
        dns_servers        = ["192.0.2.53"]
        dns_search_domains = ["home.example"]
      }
    }
  }
}
