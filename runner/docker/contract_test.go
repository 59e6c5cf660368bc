package docker

import (
	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// What the layers above ask of this package, without it knowing them.
var (
	_ driver.Engine       = (*Runner)(nil)
	_ runner.Prober       = (*Runner)(nil)
	_ runner.ImageChecker = (*Runner)(nil)
	_ runner.ImageRemover = (*Runner)(nil)
)
