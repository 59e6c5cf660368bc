# Everything that the operator could open, asked of one who did not.
job "closed" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image         = "busybox:1"
        cap_add       = ["CHOWN", "net_admin"]
        mount_secrets = true
        expose_tokens = true
        egress {
          allow_all = true
        }
      }
    }
  }
}
