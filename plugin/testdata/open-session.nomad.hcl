job "session" {
  group "main" {
    task "t" {
      driver = "wardyn"
      config {
        image   = "busybox:1"
        command = "agent"
        init {
          file    = "local/init.sh"
          timeout = "30s"
        }
        repo {
          url            = "https://git.example.com/team/web.git"
          base_branch    = "main"
          session_branch = "wardyn/fix"
          author_name    = "Agent"
          author_email   = "agent@example.com"
        }
        repo {
          url = "https://git.example.com/team/lib"
          dir = "deps/lib"
        }
        git "acme" {
          repo       = "acme/Web"
          token_file = "secrets/token"
        }
        repo {
          owner = "acme"
          name  = "Web"
          dir   = "acme"
        }
        workspace {
          volume = "web"
        }
        home {
          volume = "alice"
          path   = "/home/agent"
        }
        egress {
          allow = ["git.example.com"]
        }
      }
    }
  }
}
