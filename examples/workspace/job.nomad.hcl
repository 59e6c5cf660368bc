variable "image" {
  type    = string
  default = "alpine:3"
}

job "workspace" {
  group "main" {
    task "shell" {
      driver = "wardyn"

      config {
        image    = var.image
        idle     = true
        hostname = "workspace"

        egress {
          allow = ["dl-cdn.alpinelinux.org"]
        }
      }

      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
