package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Fake is a Driver in memory, for those who test what stands above one. It
// has the whole contract, snapshots, homes and scripts included, which no
// engine is needed for. It is safe for concurrent use.
type Fake struct {
	total int

	mu       sync.Mutex
	made     int // sessions ever made
	commits  int // refs ever minted
	sessions map[string]*fakeSession
	order    []string        // ids, oldest first
	volumes  map[string]bool // workspaces and homes
	last     Spec
	pulls    []string
	strips   [][]string
}

type fakeSession struct {
	spec  Spec
	state State
	cold  bool
}

var _ Driver = (*Fake)(nil)

// NewFake makes a Fake with total slots.
func NewFake(total int) *Fake {
	return &Fake{total: total, sessions: map[string]*fakeSession{}, volumes: map[string]bool{}}
}

// fakeImage stands for DockerOpts.Image.
const fakeImage = "fake-image"

// Create makes a session; its ids are fake-1, fake-2, ...
func (f *Fake) Create(_ context.Context, spec Spec) (Handle, error) {
	if err := check(spec, fakeImage); err != nil {
		return Handle{}, fmt.Errorf("session %q: %w", spec.SessionID, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if used := f.used(); used >= f.total {
		return Handle{}, noCapacity(used, f.total)
	}
	f.made++
	id := fmt.Sprintf("fake-%d", f.made)
	spec = cloneSpec(spec)
	f.sessions[id] = &fakeSession{spec: spec, state: StateRunning}
	f.order = append(f.order, id)
	f.last = spec
	if v := WorkspaceVolume(spec.SessionID); v != "" && spec.Sandbox.Task == nil {
		f.volumes[v] = true
	}
	if spec.Home != nil {
		f.volumes[spec.Home.Volume] = true
	}
	return Handle{ID: id, State: StateRunning}, nil
}

func (f *Fake) used() int {
	n := 0
	for _, s := range f.sessions {
		if !s.cold {
			n++
		}
	}
	return n
}

// Suspend parks a session; a cold one gives its slot back.
func (f *Fake) Suspend(_ context.Context, id string, warm bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if s == nil {
		return noSession(id)
	}
	s.state = StateSuspended
	s.cold = s.cold || !warm
	return nil
}

// Resume brings a session back; a cold one needs a slot again.
func (f *Fake) Resume(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if s == nil {
		return noSession(id)
	}
	if used := f.used(); s.cold && used >= f.total {
		return fmt.Errorf("resume session %q: %w", id, noCapacity(used, f.total))
	}
	s.state, s.cold = StateRunning, false
	return nil
}

// Snapshot notes what it was asked for; an empty ref is minted as
// fake-image:<id>-<n>.
func (f *Fake) Snapshot(_ context.Context, id, ref string, stripEnv []string) (Snapshot, error) {
	if err := checkStrip(stripEnv); err != nil {
		return Snapshot{}, fmt.Errorf("session %q: %w", id, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[id] == nil {
		return Snapshot{}, noSession(id)
	}
	if ref == "" {
		f.commits++
		ref = fmt.Sprintf("%s:%s-%d", fakeImage, id, f.commits)
	}
	f.strips = append(f.strips, slices.Clone(stripEnv))
	return Snapshot{Ref: ref}, nil
}

// Prepull notes the image.
func (f *Fake) Prepull(_ context.Context, ref string) error {
	if ref == "" {
		return fmt.Errorf("prepull: %w: no image named", runner.ErrInvalid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = append(f.pulls, ref)
	return nil
}

// Destroy removes session and workspace, never a home.
func (f *Fake) Destroy(ctx context.Context, id string) error {
	f.mu.Lock()
	s := f.sessions[id]
	f.mu.Unlock()
	if s == nil {
		return nil
	}
	return errors.Join(f.DestroyContainer(ctx, id), f.RemoveWorkspace(ctx, s.spec.SessionID))
}

// DestroyContainer removes the session and nothing else.
func (f *Fake) DestroyContainer(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, id)
	f.order = slices.DeleteFunc(f.order, func(o string) bool { return o == id })
	return nil
}

// RemoveWorkspace removes a workspace that no session uses.
func (f *Fake) RemoveWorkspace(_ context.Context, sessionID string) error {
	volume := WorkspaceVolume(sessionID)
	if volume == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.sessions {
		if s.spec.SessionID == sessionID {
			return fmt.Errorf("workspace of session %q: %w: %s uses it", sessionID, runner.ErrPrecondition, id)
		}
	}
	delete(f.volumes, volume)
	return nil
}

// Inspect reports a session's state.
func (f *Fake) Inspect(_ context.Context, id string) (Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[id]; s != nil {
		return Handle{ID: id, State: s.state}, nil
	}
	return Handle{ID: id, State: StateGone}, nil
}

// Capacity counts occupied slots and all of them.
func (f *Fake) Capacity(context.Context) (used, total int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used(), f.total, nil
}

// List returns every session, oldest first.
func (f *Fake) List(context.Context) ([]Listed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Listed
	for _, id := range f.order {
		s := f.sessions[id]
		out = append(out, Listed{SessionID: s.spec.SessionID, Handle: Handle{ID: id, State: s.state}})
	}
	return out, nil
}
