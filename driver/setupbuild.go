package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// setupSlack is what a build may take beyond its script's own time, before it
// is given up.
const setupSlack = 2 * time.Minute

// builds lets one build of an image go on at a time.
type builds struct {
	mu  sync.Mutex
	now map[string]chan struct{} // by ref; closed when the build is over
}

// begin waits until nobody builds ref, and claims it.
func (b *builds) begin(ctx context.Context, ref string) (end func(), err error) {
	for {
		b.mu.Lock()
		other := b.now[ref]
		if other == nil {
			if b.now == nil {
				b.now = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			b.now[ref] = mine
			b.mu.Unlock()
			return func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.now, ref)
				close(mine)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// BuildSetup makes the image of a setup; see SetupBuilder.
func (d *Docker) BuildSetup(ctx context.Context, s SetupSpec) (string, error) {
	ref, _, err := d.FindSetup(ctx, s)
	if err != nil {
		return "", err
	}
	end, err := d.builds.begin(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("setup: %w", err)
	}
	defer end()
	// It may have been made while we waited.
	if _, found, err := d.FindSetup(ctx, s); err != nil || found {
		return ref, err
	}
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout+setupSlack)
		defer cancel()
	}
	return ref, d.buildSetup(ctx, s, ref)
}

// buildSetup runs the script in a sandbox of its own, which is gone afterwards
// whatever became of it, and commits that when it is through.
func (d *Docker) buildSetup(ctx context.Context, s SetupSpec, ref string) (err error) {
	spec := setupSandbox(s, d.opts.Label)
	release, err := d.slots.reserve(ctx, d.engine, spec.RunID.String())
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	defer release()
	sb, err := d.engine.CreateSandbox(ctx, spec)
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	defer func() {
		// On a context of its own: the caller's may be the reason for the end.
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		err = errors.Join(err, d.engine.KillSandbox(kill, sb.Ref))
	}()
	if _, err := d.engine.Exec(ctx, sb.Ref, nil); err != nil {
		return fmt.Errorf("setup: start: %w", err)
	}
	defer watched(ctx, s.Watch, sb.Ref)()
	e, err := d.setupPower()
	if err != nil {
		return err
	}
	// Before the script has run for long: it would have run for nothing.
	if err := e.Committable(ctx, sb.Ref); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	code, err := d.engine.Wait(ctx, sb.Ref)
	switch {
	case err != nil:
		return fmt.Errorf("setup: %w", err)
	case code != 0:
		return &SetupError{code}
	}
	if s.Through != nil {
		if err := s.Through(ctx, sb.Ref); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
	}
	_, err = d.engine.Commit(ctx, sb.Ref, ref, slices.Sorted(maps.Keys(s.Env)))
	return err
}

// watched runs watch until the function it returns is called, which waits for it.
func watched(ctx context.Context, watch func(context.Context, string), ref string) (end func()) {
	if watch == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		watch(ctx, ref)
	}()
	return func() { stop(); <-over }
}

// setupSandbox is the sandbox a setup runs in: its author's class, network and
// limits, root with the operator's list of capabilities, none of the task's
// folders, and no command.
func setupSandbox(s SetupSpec, label string) runner.SandboxSpec {
	b := s.Sandbox
	b.ProxyConfig = proxyConfig(Spec{Sandbox: b})
	b.Env = maps.Clone(s.Env)
	b.Labels = maps.Clone(b.Labels)
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[label] = s.Session
	t := &runner.TaskProcess{
		User: "0:0", CapAdd: s.Caps, OnlyStages: true,
		Stages: []runner.Stage{{Name: "setup", Script: []byte(s.Script), Timeout: s.Timeout, Code: runner.SetupFailed}},
	}
	if s.Sandbox.Task != nil {
		own := s.Sandbox.Task
		t.Output, t.Image, t.CPUShares, t.CpusetCpus = own.Output, own.Image, own.CPUShares, own.CpusetCpus
	}
	b.Task = t
	return b
}
