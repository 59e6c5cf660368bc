package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// find looks a session's sandbox up. A false without an error means that the
// engine says there is none.
func (d *Docker) find(ctx context.Context, id string) (EngineSandbox, bool, error) {
	all, err := d.engine.ListSandboxes(ctx)
	if err != nil {
		return EngineSandbox{}, false, fmt.Errorf("session %q: %w", id, err)
	}
	for _, l := range all {
		if _, ours := l.Labels[d.opts.Label]; ours && l.Ref == id {
			return l, true, nil
		}
	}
	return EngineSandbox{}, false, nil
}

func stateOf(l EngineSandbox) State {
	if l.Running && !l.Suspended {
		return StateRunning
	}
	return StateSuspended
}

// Inspect reports a session's state; see Driver.
func (d *Docker) Inspect(ctx context.Context, id string) (Handle, error) {
	l, found, err := d.find(ctx, id)
	switch {
	case err != nil:
		return Handle{}, err
	case !found:
		return Handle{ID: id, State: StateGone}, nil
	}
	return Handle{ID: id, State: stateOf(l)}, nil
}

// Suspend freezes a session (warm), which keeps its slot, or stops it (cold),
// which frees it. What is suspended that far already is left alone.
func (d *Docker) Suspend(ctx context.Context, id string, warm bool) error {
	l, found, err := d.find(ctx, id)
	switch {
	case err != nil:
		return err
	case !found:
		return noSession(id)
	case !l.Running, warm && l.Suspended:
		return nil
	case warm:
		err = d.engine.Pause(ctx, id)
	default:
		err = d.engine.Park(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("suspend session %q: %w", id, err)
	}
	return nil
}

// Resume brings a session back under the same id. One that was stopped needs
// again what it gave back then, a slot and its workspace, and is refused while
// one of them is another's.
func (d *Docker) Resume(ctx context.Context, id string) error {
	l, found, err := d.find(ctx, id)
	switch {
	case err != nil:
		return err
	case !found:
		return noSession(id)
	case !l.Running:
		err = d.startAgain(ctx, l)
	case l.Suspended:
		err = d.engine.Unpause(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("resume session %q: %w", id, err)
	}
	return nil
}

// startAgain starts a session that was stopped.
func (d *Docker) startAgain(ctx context.Context, l EngineSandbox) error {
	release, err := d.slots.reserve(ctx, d.engine, l.Ref)
	if err != nil {
		return err
	}
	defer release()
	unhold, err := d.holdWorkspace(ctx, l.Labels, l.Labels[runLabel])
	if err != nil {
		return err
	}
	defer unhold()
	return d.engine.Start(ctx, l.Ref)
}

// Snapshot commits a session's file system; see Driver. A minted ref is
// unique for each call, also across processes.
func (d *Docker) Snapshot(ctx context.Context, id, ref string, stripEnv []string) (Snapshot, error) {
	if err := checkStrip(stripEnv); err != nil {
		return Snapshot{}, fmt.Errorf("session %q: %w", id, err)
	}
	l, found, err := d.find(ctx, id)
	switch {
	case err != nil:
		return Snapshot{}, err
	case !found:
		return Snapshot{}, noSession(id)
	}
	if ref == "" {
		ref = mintedRef(l.Labels[runLabel])
	}
	if _, err := d.engine.Commit(ctx, id, ref, stripEnv); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot session %q: %w", id, err)
	}
	return Snapshot{Ref: ref}, nil
}

// Prepull fetches an image ahead of need.
func (d *Docker) Prepull(ctx context.Context, ref string) error {
	if ref == "" {
		return fmt.Errorf("prepull: %w: no image named", runner.ErrInvalid)
	}
	if err := d.engine.Pull(ctx, ref); err != nil {
		return fmt.Errorf("prepull %s: %w", ref, err)
	}
	return nil
}

// DestroyContainer removes a session's sandbox and nothing else.
func (d *Docker) DestroyContainer(ctx context.Context, id string) error {
	if err := d.engine.KillSandbox(ctx, id); err != nil && !errors.Is(err, runner.ErrNotFound) {
		return fmt.Errorf("destroy session %q: %w", id, err)
	}
	return nil
}

// Destroy removes a session's sandbox and its workspace. Whose workspace that
// is stands on the sandbox alone, so it is read before anything is removed; of
// a sandbox that is gone already nothing is left to remove.
func (d *Docker) Destroy(ctx context.Context, id string) error {
	l, found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if err := d.DestroyContainer(ctx, id); err != nil {
		return err
	}
	if !found {
		return nil
	}
	return d.RemoveWorkspace(ctx, l.Labels[d.opts.Label])
}

// RemoveWorkspace removes the workspace of a session by its id; see Driver.
func (d *Docker) RemoveWorkspace(ctx context.Context, sessionID string) error {
	volume := WorkspaceVolume(sessionID)
	if volume == "" {
		return nil
	}
	if err := d.engine.RemoveVolume(ctx, volume); err != nil && !errors.Is(err, runner.ErrNotFound) {
		return fmt.Errorf("workspace of session %q: %w", sessionID, err)
	}
	return nil
}

// Capacity counts occupied slots and all of them.
func (d *Docker) Capacity(ctx context.Context) (used, total int, err error) {
	all, err := d.engine.ListSandboxes(ctx)
	if err != nil {
		return 0, d.opts.TotalSlots, fmt.Errorf("capacity: %w", err)
	}
	return d.slots.used(all), d.opts.TotalSlots, nil
}

// List returns every session in any state.
func (d *Docker) List(ctx context.Context) ([]Listed, error) {
	all, err := d.engine.ListSandboxes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var out []Listed
	for _, l := range all {
		if session, ours := l.Labels[d.opts.Label]; ours {
			out = append(out, Listed{SessionID: session, Handle: Handle{ID: l.Ref, State: stateOf(l)}})
		}
	}
	return out, nil
}
