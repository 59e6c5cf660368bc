data_dir = "/opt/nomad"

plugin "raw_exec" {
  config {
    enabled = true
  }
}

plugin "nomad-driver-wardyn" {
  config {
    data_dirr = "/srv/wardyn"
    slots     = "many"

    confinement {
      minimum = "CC2"
      clases  = ["CC2"]
    }
  }
}
