# The same, asked of one who did.
job "open" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image         = "busybox:1"
        cap_add       = ["CAP_CHOWN", "setuid"]
        cap_drop      = ["SETUID"]
        mount_secrets = true
        expose_tokens = true
        egress {
          allow     = ["api.example.com:443", "db.example.org:5432+tcp"]
          allow_all = true
        }
      }
    }
  }
}
