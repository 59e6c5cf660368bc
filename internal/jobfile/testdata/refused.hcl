# Right for a cluster, and not to be had without one.
job "refused" {
  type = "batch"
  vault {}
  parameterized {
    payload       = "required"
    meta_required = ["a", "b"]
  }
  group "g" {
    count = 3
    volume "v" {
      type   = "host"
      source = "s"
    }
    volume "w" {
      type      = "csi"
      source    = "t"
      per_alloc = true
    }
    service {
      name = "s"
      connect {
        sidecar_service {}
      }
    }
    network {
      cni {
        args = {}
      }
      port "p" {
        host_network = "public"
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = yamlencode("x")
      }
      artifact {
        source = "https://example.org/x"
      }
      vault {}
      identity {
        name     = "api"
        file     = true
        filepath = "local/new/api.jwt"
      }
      dispatch_payload {
        file = "x"
      }
      volume_mount {
        volume = "v"
      }
      template {
        data        = "{{ with nomadVar \"a/b\" }}{{ .c }}{{ end }}"
        destination = "local/z"
      }
      template {
        source      = "local/x.tpl"
        destination = "local/x"
      }
      template {
        destination = "local/y"
        data        = <<EOT
first {{ env "HOME" | toUpper }}
{{ with secret "kv/x" }}{{ .Data }}{{ end }}
{{ range service "web" }}{{ .Address }}{{ else }}{{ key "a/b" }}{{ end }}
{{ if nomadVarExists "a" }}{{ sprig_upper "b" }}{{ file "/etc/passwd" }}{{ end }}
EOT
      }
      resources {
        device "gpu" {}
        network {}
      }
      dynamic "template" {
        for_each = [1]
        content {}
      }
    }
  }
}
