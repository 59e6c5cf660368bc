# The least that runs: an image. The strongest class that works is chosen, and
# nothing can be reached.
job "minimal" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image = "busybox:1"
      }
    }
  }
}
