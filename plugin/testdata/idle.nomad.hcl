# K5: idles on request only. The runtime is taken as the name of a class.
job "idle" {
  group "g" {
    task "shell" {
      driver = "wardyn"
      config {
        image   = "debian:bookworm-slim"
        idle    = true
        runtime = "runsc"
      }
    }
  }
}
