package driver

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Engine is what a session needs from a substrate: the sandbox contract, and
// the verbs it has no word for. runner/docker satisfies it without knowing.
type Engine interface {
	runner.Runner
	runner.Suspender
	// Start starts a sandbox that was stopped (cold resume).
	Start(ctx context.Context, ref string) error
	// Park stops a sandbox and keeps it (cold suspend).
	Park(ctx context.Context, ref string) error
	// Commit makes an image of a sandbox's file system; see Driver.Snapshot.
	Commit(ctx context.Context, ref, tag string, blankEnv []string) (string, error)
	// Pull fetches an image.
	Pull(ctx context.Context, image string) error
	// CreateVolume makes a named volume owned by uid:gid, or adopts ours of that name.
	CreateVolume(ctx context.Context, name string, labels map[string]string) error
	// RemoveVolume removes a named volume; an absent one is nil.
	RemoveVolume(ctx context.Context, name string) error
	// ListSandboxes returns every sandbox of this instance, in any state.
	ListSandboxes(ctx context.Context) ([]EngineSandbox, error)
}

// VolumeChecker is an optional power of an Engine: does a volume exist? With
// it a Create that fails takes back a workspace it made; without it an empty
// workspace stays, since removing one that was there before is the worse fault.
type VolumeChecker interface {
	VolumePresent(ctx context.Context, name string) (bool, error)
}

// EngineSandbox is one sandbox as the substrate lists it.
type EngineSandbox = runner.Listed
