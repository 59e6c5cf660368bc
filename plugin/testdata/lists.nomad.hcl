# Labels as a list of maps: later keys win.
job "lists" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image = "busybox:1"
        labels = [
          { tier = "cache", kept = "no" },
          { kept = "yes" },
        ]
        egress = {
          allow = ["example.com"]
        }
      }
    }
  }
}
