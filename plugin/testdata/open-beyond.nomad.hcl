# Beyond every ceiling of the operator.
job "beyond" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image      = "busybox:1"
        pids_limit = 257
        cap_add    = ["KILL"]
        egress {
          allow = ["example.com", "*.example.org", "db.example.org:22+tcp", "telemetry.example.com"]
        }
      }
      resources {
        memory = 2049
      }
    }
  }
}
