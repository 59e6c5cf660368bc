plugin "nomad-driver-wardyn" {
  config {
    data_dir           = "/var/lib/wardyn"
    egress_subnet_pool = "10.214.240.0/22"

    # Name and address of upstreams on this node's own networks. Everything
    # private that is not named here stays refused.
    private_hosts {
      "model.example.internal"    = ["10.214.240.1"]
      "packages.example.internal" = ["10.214.240.1"]
    }

    max_memory = 4096
  }
}
