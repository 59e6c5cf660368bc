package docker

// findingsCache keeps what probes found out.
type findingsCache struct{}
