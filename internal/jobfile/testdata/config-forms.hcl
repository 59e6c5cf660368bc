# How the driver's config becomes a generic map.
locals {
  object = { a = 1 }
}

job "config-forms" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        text    = "a"
        whole   = 3
        large   = 9007199254740993
        decimal = 0.1
        beyond  = 18446744073709551616
        truth   = true
        nothing = null
        list    = [1, "two", { three = 3 }]
        empty   = []

        # an object literal is wrapped, one made by a function or a local is not
        literal  = { "dotted.key" = "x", inner = { deep = true } }
        merged   = merge({ a = 1 }, { b = 2 })
        variable = local.object

        single {
          x = 1
          y = { z = "wrapped here too" }
        }
        twice {
          x = 1
        }
        twice {
          x = 2
        }
        labelled "one" "two" {
          x = 1
        }
        labelled "three" "four" {
          x = 2
        }
        empty_block {}

        runtime    = NOMAD_TASK_DIR
        mixed      = "${NOMAD_META_a}-${attr.kernel.name}-${meta.rack}-${env["A B"]}"
        spaced     = "${ NOMAD_META_a } ${  meta.rack} ${ upper("a") }"
        secret     = ["${secret.db.password}"]
        escaped    = "$${kept} %%{kept}"
        shell      = "$HOME $(date +%F)"
        comprehend = [for name in ["a", "b"] : "${name}-${NOMAD_TASK_NAME}"]
        chosen     = var.debug ? "on" : "off"
      }
    }
  }
}

variable "debug" {
  type    = bool
  default = false
}
