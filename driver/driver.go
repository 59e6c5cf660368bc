package driver

import "context"

// State is a session's state as the substrate shows it.
type State string

const (
	// StateRunning: the container runs.
	StateRunning State = "running"
	// StateSuspended: frozen (warm) or stopped (cold), and resumable.
	StateSuspended State = "suspended"
	// StateGone: the engine says that there is no such container. Never the
	// reading of an engine that could not be asked.
	StateGone State = "gone"
)

// Handle names one incarnation of a session.
type Handle struct {
	ID    string // the driver's own resource id
	State State
}

// Listed pairs a session with its handle.
type Listed struct {
	SessionID string
	Handle    Handle
}

// Snapshot is a committed image.
type Snapshot struct {
	Ref string // OCI image ref or tar path
}

// Driver creates, parks and removes sessions. Implementations are safe for
// concurrent use; every verb of removal tolerates what is already gone, and
// only that: an engine that fails is an error.
type Driver interface {
	// Create makes and starts a session's sandbox. On an error nothing is left.
	Create(ctx context.Context, spec Spec) (Handle, error)
	// Suspend freezes (warm) or stops (cold) a session; both read back as suspended.
	Suspend(ctx context.Context, id string, warm bool) error
	// Resume brings a suspended session back under the same id; on a running one it is nil.
	Resume(ctx context.Context, id string) error
	// Snapshot commits a session's file system as an image. A non-empty ref is
	// used and returned verbatim; an empty one is minted. Each variable named
	// in stripEnv is present and empty in the image's configuration, and no
	// value of it is anywhere in the image's metadata.
	Snapshot(ctx context.Context, id, ref string, stripEnv []string) (Snapshot, error)
	// Prepull fetches ref ahead of need. Advisory: a failure changes nothing.
	Prepull(ctx context.Context, ref string) error
	// Destroy removes the container and the session's workspace, never a home.
	Destroy(ctx context.Context, id string) error
	// DestroyContainer removes the container and nothing else: the path of a
	// crash, after which the workspace is what someone most wants back.
	DestroyContainer(ctx context.Context, id string) error
	// RemoveWorkspace removes the workspace of a session by session id. An
	// absent one is success; an empty id is a no-op; one in use is an error.
	RemoveWorkspace(ctx context.Context, sessionID string) error
	// Inspect reports a session's state; gone is a state, not an error.
	Inspect(ctx context.Context, id string) (Handle, error)
	// Capacity counts occupied slots (running and frozen) and all slots. The
	// total comes back together with an error too.
	Capacity(ctx context.Context) (used, total int, err error)
	// List returns every session of ours in any state.
	List(ctx context.Context) ([]Listed, error)
}
