job "talk" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        hang  = "yes"
        print = "one\ntwo\n"
      }
    }
  }
}
