variable "how" {
  type    = string
  default = "yes"
}
job "hang" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        hang = var.how
      }
    }
  }
}
