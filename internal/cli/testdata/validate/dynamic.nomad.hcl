# Dynamic blocks, which Nomad expands everywhere but in a driver's config.
job "dynamic" {
  dynamic "group" {
    for_each = ["a", "b"]
    labels   = [group.value]
    content {
    }
  }

  group "g" {
    network {
      dynamic "port" {
        for_each = { http = 8080 }
        labels   = [port.key]
        content {
          to = port.value
        }
      }
    }

    dynamic "task" {
      for_each = ["a"]
      labels   = [task.value]
      content {
      }
    }

    task "t" {
      driver = "wardyn"

      dynamic "template" {
        for_each = ["a"]
        content {
          data        = "x"
          destination = "local/${template.value}"
        }
      }

      config {
        image   = "busybox:1"
        ports   = ["http"]
        command = "serve"
        args    = ["${NOMAD_PORT_http}", "${FROM_TEMPLATE}"]
      }
    }
  }
}
