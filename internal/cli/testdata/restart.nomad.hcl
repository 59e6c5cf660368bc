job "restart" {
  type = "batch"
  group "g" {
    restart {
      attempts = 2
      interval = "1h"
      delay    = "1ms"
    }
    task "t" {
      driver = "wardyn"
      config {
        print = "again\n"
        exit  = 4
      }
    }
  }
}
