# Hardware and privilege. Refused, for everything at once.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-devices" {
  type = "service"

  group "printer" {
    network {
      mode = "host"
      port "ui" {
        static = 18888
      }
    }

    task "server" {
      driver = "wardyn"

      config {
        image      = var.image
        ports      = ["ui"]
        privileged = true

        devices = [
          {
            host_path      = "/dev/ttyACM0"
            container_path = "/dev/printer"
          },
          {
            host_path          = "/dev/video0"
            cgroup_permissions = "rw"
          }
        ]

        cap_add      = ["NET_RAW", "NET_ADMIN"]
        cap_drop     = ["MKNOD"]
        security_opt = ["apparmor=unconfined"]
      }

      env {
        ENABLE_STREAMER = "true"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
