plugin "nomad-driver-wardyn" {
  config {
    # Where the driver keeps its state; root-only.
    data_dir = "/var/lib/wardyn"
  }
}
