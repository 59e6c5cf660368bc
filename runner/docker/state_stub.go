package docker

type toolImage struct{}
type findingsCache struct{}
