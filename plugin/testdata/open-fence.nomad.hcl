# On the host's own kernel Nomad's sockets are covered.
job "fence" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image         = "busybox:1"
        confinement   = "CC1"
        mount_secrets = true
      }
    }
  }
}
