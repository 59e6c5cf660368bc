package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	defaultSlots = 16
	// undoTimeout bounds taking back what a failed Create has made.
	undoTimeout = 60 * time.Second
)

// Docker is the Driver over an engine. It keeps nothing but reservations: all
// it knows of a session it reads from the engine, so a new process takes over
// where another left off. It is safe for concurrent use.
type Docker struct {
	engine Engine
	opts   DockerOpts
	slots  slots
	builds builds
}

var (
	_ Driver       = (*Docker)(nil)
	_ SetupBuilder = (*Docker)(nil)
)

// NewDocker makes a Driver over an engine. It does not talk to the engine.
func NewDocker(e Engine, o DockerOpts) *Docker {
	if o.Label == "" {
		o.Label = DefaultLabel
	}
	if o.TotalSlots == 0 {
		o.TotalSlots = defaultSlots
	}
	return &Docker{engine: e, opts: o, slots: slots{total: o.TotalSlots, label: o.Label}}
}

// Validate finds every fault of a Spec without touching the engine; Create
// begins with it. The error lists them all.
func (d *Docker) Validate(spec Spec) error {
	if err := errors.Join(check(spec, d.opts.Image), unsupported(d.opts)); err != nil {
		return fmt.Errorf("session %q: %w", spec.SessionID, err)
	}
	return nil
}

// Create checks the whole Spec, reserves a slot, and makes and starts the
// sandbox. On an error everything it made is gone again; a workspace that was
// there before stays.
func (d *Docker) Create(ctx context.Context, spec Spec) (Handle, error) {
	if err := d.Validate(spec); err != nil {
		return Handle{}, err
	}
	sandbox := sandboxSpec(spec, d.opts)
	id, err := d.create(ctx, spec.SessionID, sandbox)
	if err != nil {
		return Handle{}, fmt.Errorf("session %q: %w", spec.SessionID, err)
	}
	return Handle{ID: id, State: StateRunning}, nil
}

func (d *Docker) create(ctx context.Context, sessionID string, spec runner.SandboxSpec) (ref string, err error) {
	unclaim, err := d.slots.claim(sessionID)
	if err != nil {
		return "", err
	}
	defer unclaim()
	release, err := d.slots.reserve(ctx, d.engine, spec.RunID.String())
	if err != nil {
		return "", err
	}
	defer release()
	unhold, err := d.holdWorkspace(ctx, spec.Labels, spec.RunID.String())
	if err != nil {
		return "", err
	}
	defer unhold()

	var undo undoStack
	defer func() { err = undo.finish(ctx, err) }()
	if err := d.makeVolumes(ctx, spec, &undo); err != nil {
		return "", err
	}
	return launch(ctx, d.engine, spec, &undo)
}

// launch makes the sandbox and starts its main process, in one step where the
// engine has one.
func launch(ctx context.Context, e Engine, spec runner.SandboxSpec, undo *undoStack) (ref string, err error) {
	if l, ok := e.(runner.Launcher); ok {
		sb, err := l.Launch(ctx, spec)
		return sb.Ref, err
	}
	sb, err := e.CreateSandbox(ctx, spec)
	if err != nil {
		return "", err
	}
	undo.push("sandbox "+sb.Ref, func(ctx context.Context) error { return e.KillSandbox(ctx, sb.Ref) })
	if _, err := e.Exec(ctx, sb.Ref, nil); err != nil {
		return "", fmt.Errorf("start: %w", err)
	}
	return sb.Ref, nil
}

// makeVolumes makes the volumes a sandbox mounts. Each is undone only when it
// is certain that it was not there before.
func (d *Docker) makeVolumes(ctx context.Context, spec runner.SandboxSpec, undo *undoStack) error {
	for _, v := range volumesOf(spec.Task) {
		labels := map[string]string{NamespaceLabel: spec.Labels[NamespaceLabel]}
		if session := spec.Labels[d.opts.Label]; v == WorkspaceVolume(session) {
			labels[d.opts.Label] = session
		}
		fresh := false
		if c, ok := d.engine.(VolumeChecker); ok {
			present, err := c.VolumePresent(ctx, v)
			if err != nil {
				return fmt.Errorf("volume %s: %w", v, err)
			}
			fresh = !present
		}
		if err := d.engine.CreateVolume(ctx, v, labels); err != nil {
			return fmt.Errorf("volume %s: %w", v, err)
		}
		if fresh {
			undo.push("volume "+v, func(ctx context.Context) error { return d.engine.RemoveVolume(ctx, v) })
		}
	}
	return nil
}

// undoStack takes back what a failed create has made, newest first.
type undoStack struct {
	steps []undoStep
}

type undoStep struct {
	what string
	run  func(context.Context) error
}

func (u *undoStack) push(what string, run func(context.Context) error) {
	u.steps = append(u.steps, undoStep{what, run})
}

// finish runs the steps when err says that the create failed, on a fresh
// bounded context since the caller's may be over, and adds their errors to it.
func (u *undoStack) finish(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for i := len(u.steps) - 1; i >= 0; i-- {
		if uerr := u.steps[i].run(ctx); uerr != nil {
			err = errors.Join(err, fmt.Errorf("undo %s: %w", u.steps[i].what, uerr))
		}
	}
	return err
}
