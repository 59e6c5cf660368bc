job "session" {
  group "main" {
    task "t" {
      driver = "wardyn"
      config {
        image   = "busybox:1"
        volumes = ["local/x:/workspace/x"]
        init {
          file    = "secrets/init.sh"
          script  = "true"
          timeout = "soon"
          other   = 1
        }
        repo {
          owner = "acme"
          name  = "web"
        }
        repo {
          url          = "https://token@git.example.com/team/lib"
          author_email = "a@example.com"
        }
        repo {
          url          = "https://elsewhere.example.com/team/lib"
          author_email = "b@example.com"
        }
        repo {
          url          = "ssh://git.example.com/team/lib"
        }
        workspace {
          volume = "web"
        }
        home {
          path = "/alloc/home"
        }
        egress {
          allow = ["git.example.com"]
        }
      }
    }
  }
}
