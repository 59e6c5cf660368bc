# A sandbox that sleeps and is driven by alloc exec: gVisor, no network, a
# workspace below local/. Runs where gVisor does.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-sandbox" {
  type = "batch"

  meta {
    owner   = "agent-1"
    session = "s-0001"
  }

  group "sandbox" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    ephemeral_disk {
      size = 2048
    }

    task "sandbox" {
      driver       = "wardyn"
      kill_timeout = "5s"

      config {
        image        = var.image
        command      = "sleep"
        args         = ["infinity"]
        network_mode = "none"
        work_dir     = "/workspace"
        init         = true
        pids_limit   = 256

        cap_drop     = ["all"]
        security_opt = ["no-new-privileges"]
        runtime      = "runsc"

        volumes = ["local/workspace:/workspace"]
      }

      env {
        HOME = "/workspace"
      }

      resources {
        cpu        = 1000
        memory     = 512
        memory_max = 1024
      }
    }
  }
}
