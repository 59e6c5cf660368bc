plugin "nomad-driver-wardyn" {
  config {
    data_dir = "/var/lib/wardyn"
  }
}
