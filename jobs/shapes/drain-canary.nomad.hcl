# A service with canary, long kill_timeout, memory_max and a prestart task.
# Refused for network_mode = "host" alone; without that line it runs.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-drain-canary" {
  priority = 90

  group "api" {
    count = 1

    restart {
      interval = "5s"
      attempts = 1
      delay    = "5s"
      mode     = "delay"
    }

    network {
      port "http" {
        static = 18080
      }
      port "grpc" {}
    }

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    service {
      name     = "shape-drain-canary"
      provider = "nomad"
      port     = "http"
      task     = "start"

      check {
        type     = "http"
        path     = "/health"
        interval = "3s"
        timeout  = "3s"
      }
    }

    update {
      max_parallel      = 1
      canary            = 1
      min_healthy_time  = "10s"
      healthy_deadline  = "300s"
      progress_deadline = "301s"
      auto_promote      = true
      auto_revert       = true
    }

    task "migrate" {
      driver = "wardyn"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      env {
        DATABASE_URL = "postgres://db.internal/app"
      }

      config {
        image   = var.image
        command = "/bin/true"
      }

      resources {
        cpu    = 250
        memory = 128
      }
    }

    task "start" {
      driver       = "wardyn"
      kill_timeout = "150s"
      kill_signal  = "SIGTERM"

      env {
        NODE_ID   = "${node.unique.id}"
        GRPC_PORT = "${NOMAD_PORT_grpc}"
      }

      config {
        network_mode = "host"
        image        = var.image
        ports        = ["http", "grpc"]
        args         = ["--port", "18080"]
      }

      resources {
        cpu        = 1000
        memory     = 512
        memory_max = 1024
      }
    }
  }
}
