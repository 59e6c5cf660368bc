# What a coding agent's task looks like.
job "agent" {
  group "work" {
    task "claude" {
      driver = "wardyn"
      user   = "1000:1000"
      env {
        HOME = "/workspace"
      }
      config {
        image       = "registry.example.org/acme/agent@sha256:3f1f3fb23a2d2a6e1d3bcb24d4f5a4a8c3c0b0c0f3a1b9c4e0f0f1f2f3f4f5f6"
        command     = "claude"
        args        = ["-p", "fix the failing test of ${NOMAD_ALLOC_ID}"]
        work_dir    = "/workspace"
        hostname    = "agent-1"
        confinement = "CC1"
        tty         = true
        interactive = true

        egress {
          allow   = ["api.anthropic.com", "*.packages.example.org:443", "db.example.org:5432+tcp"]
          deny    = ["telemetry.example.com"]
          methods = ["get", "POST", "CONNECT"]
        }

        volumes         = ["local/workspace:/workspace", "../alloc/data:/data:ro", "local/conf/:/etc/agent/"]
        readonly_rootfs = true
        pids_limit      = 300
        shm_size        = "256m"
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges:true"]
        labels {
          owner = "agent-1"
        }
      }
      resources {
        cpu        = 1000
        memory     = 512
        memory_max = 1024
      }
    }
  }
}
