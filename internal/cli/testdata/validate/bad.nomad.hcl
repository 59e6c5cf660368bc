job "bad" {
  datacenters = ["dc1"]
  group "g" {
    count = 3
    constraint {
      attribute = "${attr.kernel.name}"
      value     = "linux"
    }
    network {
      mode = "host"
      port "http" { to = 8080 }
    }
    task "other" {
      driver = "docker"
      config {
        image = "x"
        whatever = true
      }
    }
    task "web" {
      driver = "wardyn"
      config {
        image = "${meta.image}"
        privileged = true
        comand = "sh"
        args = [
          "-c",
          "echo $${X:-y}",
        ]
        volumes = [
          "local/a:/a",
          "/etc:/etc2",
        ]
        egress {
          alow = ["a"]
          allow = ["http://x"]
        }
        network_mode = "host"
      }
      artifact {
        source = "https://x"
      }
      env {
        WARDYN_X = "1"
      }
      resources {
        memory = 0
      }
    }
    task "good" {
      driver = "wardyn"
      config {
        image = "nothere:1"
        command = "${NOMAD_PORT_http}"
      }
    }
  }
}
