job "mistakes" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        refuse = "2 reasons:\n  privileged = true: never\n  image is missing\u001b[2J"
      }
    }
    task "other" {
      driver = "wardyn"
      lifecycle {
        hook = "poststart"
      }
      config {
        print = "never"
      }
    }
  }
}
