job "lifecycle" {
  type = "batch"
  group "g" {
    task "main" {
      driver = "wardyn"
      config {
        print = "main\n"
      }
    }
    task "clean" {
      driver = "wardyn"
      lifecycle {
        hook = "poststop"
      }
      config {
        print = "clean\n"
      }
    }
    task "prepare" {
      driver = "wardyn"
      lifecycle {
        hook = "prestart"
      }
      config {
        print = "prepare\n"
      }
    }
  }
}
