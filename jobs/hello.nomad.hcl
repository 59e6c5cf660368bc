# The first job: says which kernel it runs on, makes one request that its
# policy allows and one that it refuses.
#
#   nomad-driver-wardyn run -var image=IMAGE jobs/hello.nomad.hcl
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

variable "class" {
  type    = string
  default = "CC1"
}

variable "linger" {
  type    = number
  default = 0
}

job "hello" {
  type = "batch"

  group "main" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "hello" {
      driver = "wardyn"

      config {
        image       = var.image
        command     = "/bin/sh"
        args        = ["/local/hello.sh"]
        confinement = var.class

        egress {
          allow = ["artifacts.example.internal:8080"]
        }
      }

      template {
        destination = "local/hello.sh"
        data        = <<-SCRIPT
          echo "kernel: $(uname -sr)"
          echo "user: $(id -un)"

          n=0
          until reply=$(wget -q -O - http://artifacts.example.internal:8080/greeting.txt); do
            n=$((n + 1))
            [ $n -lt 50 ] || exit 9
            sleep 0.2
          done
          echo "allowed: $reply"

          # By hand, so that the whole answer shows: most clients hide its body.
          printf 'GET http://blocked.example/ HTTP/1.1\r\nHost: blocked.example\r\nConnection: close\r\n\r\n' |
            nc wardyn-proxy 3128 | sed -n -e 's/^HTTP/denied: HTTP/p' -e 's/^{/denied: {/p'
          touch /local/done
          sleep ${var.linger}
        SCRIPT
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
