package docker

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Options is what the host gives a Runner. What a task asks for is in
// runner.SandboxSpec.
type Options struct {
	// Endpoint is the engine's socket, "unix:///path"; "" is the usual one.
	// Only local unix sockets are taken.
	Endpoint string
	// Dir is the node's state: instance, proofs, run directories. Required.
	Dir *datadir.Dir
	// Control serves the sidecars. Required.
	Control ControlPlane
	// Tools provides the static binaries. Required.
	Tools Tools
	// SubnetPool is the range runs' networks are cut from; zero is 10.213.0.0/16.
	SubnetPool netip.Prefix
	// EgressPool is the range the egress network is cut from; zero is 10.214.0.0/16.
	EgressPool netip.Prefix
	// EgressNetwork overrides the egress network's name.
	EgressNetwork string
	// Runtimes pins the runtime of a class by its registered name.
	Runtimes map[types.ConfinementClass]string
	// Max caps what any task may ask for; zero fields do not cap.
	Max runner.Resources
	// Images are the host's decisions about images.
	Images ImageOptions
	// SharedVerdicts is a folder where the processes of this node leave each other
	// the good verdicts of their probes; "" keeps them to this one.
	SharedVerdicts string
	// PoolSize is how many slots KeepPool keeps warm.
	PoolSize int
	// Log takes operational messages. Required.
	Log *slog.Logger
}

// ControlPlane is the plugin's side of the sidecars' control socket.
type ControlPlane interface {
	// Open makes the run's control socket and serves proxyConfig on it, to be
	// answered together with the node's own configuration and the addresses of
	// the run's network. Opening an open run replaces its configuration.
	Open(ctx context.Context, run uuid.UUID, proxyConfig []byte, net netpool.Plan) (Endpoint, error)
	// Expect makes the open socket of a run ready for another sidecar in place
	// of one that died; an error when this process serves none.
	Expect(run uuid.UUID) (Endpoint, error)
	// Close ends the run's socket and removes its folder; an unknown run is nil.
	Close(run uuid.UUID) error
}

// Endpoint is an open control socket; its Dir is mounted into the sidecar at
// ControlMount.
type Endpoint = egress.Endpoint

// ControlMount is where the sidecar finds its control socket.
const ControlMount = "/run/wardyn"

// Tools provides the two static binaries this program carries.
type Tools interface {
	// RecorderPath is the host path of wardyn-rec, at a content-addressed
	// place that is never overwritten.
	RecorderPath() (string, error)
	// Image is an image archive (docker load format) that holds /wardyn-proxy
	// and /wardyn-rec, and the image id it loads as. The same binaries give
	// the same id.
	Image() (archive []byte, id string, err error)
}
