# -var image=a:1 -var count=3 -var debug=true -var list=["a","b"] -var any=007
variable "image" {
  type        = string
  description = "what to run"
  validation {
    condition     = length(var.image) > 2
    error_message = "an image has a name."
  }
}
variable "count" {
  type = number
}
variable "debug" {
  type    = bool
  default = false
}
variable "list" {
  type = list(string)
}
variable "any" {}
variable "object" {
  type    = object({ a = string, b = number })
  default = { a = 1, b = "2" }
}
job "vars" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image  = var.image
        count  = var.count
        debug  = var.debug
        list   = var.list
        any    = var.any
        object = var.object
      }
    }
  }
}
