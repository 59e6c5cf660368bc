variable "code" {
  type    = number
  default = 3
}
job "one" {
  type = "batch"
  group "g" {
    ephemeral_disk {}
    restart {
      attempts = 0
    }
    task "hello" {
      driver       = "wardyn"
      kill_timeout = "31s"
      config {
        print = "one\ntwo\nno end"
        warn  = "watch out\n"
        exit  = var.code
      }
    }
  }
}
