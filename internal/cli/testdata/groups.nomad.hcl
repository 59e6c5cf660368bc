job "groups" {
  type = "batch"
  group "a" {
    task "one" {
      driver = "wardyn"
      config {
        print = "a\n"
      }
    }
  }
  group "b" {
    task "two" {
      driver = "wardyn"
      config {
        print = "b\n"
      }
    }
  }
}
