# -var count=many -var debug=perhaps -var imagee=x -var short=a
variable "image" {
  type = string
}
variable "count" {
  type = number
}
variable "debug" {
  type = bool
}
variable "short" {
  validation {
    condition     = length(var.short) > 2
    error_message = "short is too short."
  }
}
variable "default" {
  type    = number
  default = "x"
}
variable "kind" {
  type = strnig
}
variable "twice" {
  default = 1
}
variable "twice" {
  default = 2
}
locals {
  a = local.b
  b = local.a
  c = local.nowhere
}
job "vars" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image = var.image
        other = var.undeclared
        loop  = local.a
      }
    }
  }
}
