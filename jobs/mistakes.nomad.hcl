# Five mistakes in one config: the refusal names all five, and nothing is made.
job "mistakes" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "mistakes" {
      driver = "wardyn"

      config {
        image        = "wardyn-demo/busybox:1"
        command      = "true"
        confinement  = "CC9"
        network_mode = "host"
        privileged   = true
        work_dir     = "not/absolute"

        egress {
          allow = ["https://example.com/"]
        }
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
