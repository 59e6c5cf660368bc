# Maps as maps with dotted keys and numbers, strings for booleans and numbers,
# one string for a list: all of it is in real job files.
job "spellings" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image          = "busybox:1"
        entrypoint     = "/bin/true"
        cpu_hard_limit = "true"
        pids_limit     = "200"
        shm_size       = 67108864
        init           = "true"
        devices        = []
        privileged     = "false"

        labels = {
          "example.enable"   = "true"
          "example.max_tags" = 3
        }
        ulimit = {
          nofile = "65536:65536"
        }
        sysctl = {
          "net.ipv4.ip_unprivileged_port_start" = "0"
        }
      }
    }
  }
}
