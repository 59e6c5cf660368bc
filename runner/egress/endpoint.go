package egress

// Endpoint is a run's open control socket, as whoever mounts it into the
// sidecar sees it.
type Endpoint struct {
	// Dir is the host folder that holds the run's sockets and nothing else. It
	// alone is mounted into the sidecar, read-only.
	Dir string
	// Ready is closed when the sidecar has its configuration and listens.
	Ready <-chan struct{}
}
