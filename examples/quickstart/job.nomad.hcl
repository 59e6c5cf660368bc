variable "image" {
  type    = string
  default = "alpine:3"
}

job "quickstart" {
  type = "batch"

  group "main" {
    task "web-check" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "/bin/sh"
        args    = ["-c", "wget -q -O - http://example.com/ | head -n 3; wget -q -O - http://example.net/ || echo refused, as it should be"]

        egress {
          allow = ["example.com:80"]
        }
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
