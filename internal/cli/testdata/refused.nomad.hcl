job "refused" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        print = "never"
      }
      artifact {
        source = "https://example.org"
      }
    }
  }
}
