# A rendered script as prestart, the main task, and a poststop that runs
# whatever became of it; dns options that are told to be without effect. Runs.
variable "image" {
  type    = string
  default = "wardyn-demo/busybox:1"
}

job "shape-lifecycle" {
  type = "batch"

  group "g" {
    task "init" {
      driver = "wardyn"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      config {
        image              = var.image
        entrypoint         = ["/bin/sh", "/local/init.sh"]
        dns_servers        = ["192.0.2.53"]
        dns_search_domains = ["home.example"]
        dns_options        = ["ndots:1", "timeout:1"]
      }

      template {
        destination = "local/init.sh"
        perms       = "0755"
        data        = <<SCRIPT
set -e
mkdir -p /alloc/data
if [ ! -f /alloc/data/config ]; then
  cp /local/default.conf /alloc/data/config
fi
cat /etc/resolv.conf
SCRIPT
      }

      template {
        destination = "local/default.conf"
        data        = "mode = first\n"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "main" {
      driver = "wardyn"

      config {
        image   = var.image
        command = "sh"
        args    = ["-c", "cat /alloc/data/config && sleep 2"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "cleanup" {
      driver = "wardyn"

      lifecycle {
        hook = "poststop"
      }

      config {
        image   = var.image
        command = "rm"
        args    = ["-f", "/alloc/data/config"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
