package docker

import (
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/docker/regauth"
)

// ImageOptions are the host's decisions about images.
type ImageOptions struct {
	// Auth is where the host's credentials for registries are.
	Auth regauth.Source
	// PullTimeout bounds a task's wait for its image when the task sets no
	// limit; 0 is 15 minutes.
	PullTimeout time.Duration
	// PullActivity ends a pull that stands still for so long; 0 is 2 minutes.
	PullActivity time.Duration
	// TrustPresent lets every task use every image that is present, without
	// asking the image's registry whether the task may have it.
	TrustPresent bool
	// KeepUnused is how long an image that this driver pulled stays after its
	// last use; 0 keeps images.
	KeepUnused time.Duration
	// Keep are names of images that are never taken for unused.
	Keep []string
}

func (o ImageOptions) pullTimeout() time.Duration {
	if o.PullTimeout > 0 {
		return o.PullTimeout
	}
	return defaultPullTimeout
}

func (o ImageOptions) pullActivity() time.Duration {
	if o.PullActivity > 0 {
		return o.PullActivity
	}
	return defaultPullActivity
}
