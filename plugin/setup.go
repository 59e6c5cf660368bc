package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// setupRun is the run of a task's setup, which has a sandbox of its own.
func setupRun(run uuid.UUID) uuid.UUID { return uuid.NewSHA1(run, []byte("setup")) }

// setupState is a setup under way. It ends before the task's own sandbox is
// there, or with it.
type setupState struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the setup is over, however
}

// settingUp reports whether the task has no sandbox yet because its setup runs.
func (t *task) settingUp() bool {
	if t.setup == nil {
		return false
	}
	select {
	case <-t.setup.done:
		return false
	default:
		return true
	}
}

// endSetup ends a setup that is under way, and waits for that.
func (t *task) endSetup(ctx context.Context) error {
	if t.setup == nil {
		return nil
	}
	t.setup.cancel()
	select {
	case <-t.setup.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the setup of task %q does not end: %w", t.config.GetName(), ctx.Err())
	}
}

// setUp makes a planned task start from the image of its setup. Where that has
// to be made first, started is true and the rest goes on in the background: a
// client cannot stop a task before its start has been answered.
func (p *Plugin) setUp(ctx context.Context, b *Backend, t *task, pl *plan) (started bool, err error) {
	builder, ok := b.Driver.(driver.SetupBuilder)
	if !ok {
		return false, fmt.Errorf("setup: %w", runner.ErrUnsupported)
	}
	host, _ := p.options()
	s, err := setupOf(pl, host)
	if err != nil {
		return false, err
	}
	ref, found, err := builder.FindSetup(ctx, s)
	if err != nil {
		return false, err
	}
	if found {
		p.events.emit(t.config, "The setup was done before: starting from "+ref, "image", ref)
		startFrom(&pl.Spec, ref)
		return false, nil
	}
	t.ports.Rest()
	sctx, cancel := context.WithCancel(t.ctx)
	t.setup = &setupState{cancel: cancel, done: make(chan struct{})}
	p.tasks.put(t)
	go func() {
		defer cancel()
		err := p.buildAndStart(sctx, b, t, builder, s, pl)
		close(t.setup.done)
		switch {
		case err == nil:
			p.trimSetups(t.ctx, b)
		case p.life.Err() == nil:
			p.setupFailed(t, sctx.Err() != nil, err)
		}
	}()
	return true, nil
}

// setupOf is a planned task's setup: the same image, class, limits and egress
// policy, with the same hosts opened, and no credential, since what it makes
// outlives the task. Its CA is its own.
func setupOf(pl *plan, host HostConfig) (driver.SetupSpec, error) {
	own := pl.Spec.Sandbox
	s := driver.SetupSpec{
		Session: pl.Spec.SessionID, Namespace: own.Labels[driver.NamespaceLabel],
		Script: pl.Setup.Text, Timeout: pl.Setup.Timeout, Env: pl.Setup.Env, Private: pl.Setup.Private,
		Caps: host.Setups.Caps, Learn: pl.Learn,
		Sandbox: runner.SandboxSpec{
			RunID: setupRun(pl.Run), Image: pl.Spec.Image, ConfinementClass: own.ConfinementClass,
			ProxyConfig: runner.ProxyConfig{
				Policy:    own.ProxyConfig.Policy.Clone(),
				MITMHosts: own.ProxyConfig.MITMHosts, MITMLLM: own.ProxyConfig.MITMLLM,
			},
			Resources: own.Resources, Labels: own.Labels,
			Task: &runner.TaskProcess{Image: own.Task.Image, CPUShares: own.Task.CPUShares, CpusetCpus: own.Task.CpusetCpus},
		},
	}
	return s, errors.Join(trustOwnCA(&s.Sandbox), leaveThrough(&s.Sandbox, host))
}

// startFrom makes a session start from an image that is there.
func startFrom(s *driver.Spec, ref string) {
	s.Image, s.Sandbox.Task.Image = ref, runner.ImageSource{Notify: s.Sandbox.Task.Image.Notify}
}

// buildAndStart runs the setup and then the task. The setup's output is let go
// of only when the task's is held, or the client's log would end in between.
func (p *Plugin) buildAndStart(ctx context.Context, b *Backend, t *task, builder driver.SetupBuilder, s driver.SetupSpec, pl *plan) (err error) {
	run := s.Sandbox.RunID
	out := outputOf(b, run, t.config.GetStdoutPath(), t.config.GetStderrPath())
	s.Sandbox.Task.Output = b.Outputs.Sink(out)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p.watchSetup(b, t, &s, diskEvery, end)
	p.events.emit(t.config, "The setup runs; its lines in the task's log start with [setup]")
	err = b.Control.Prepare(control.Run{
		ID: run, Owner: ownerOf(t.config), FilesDir: filepath.Join(t.records, "setup"), OnDecision: t.denials.hear,
		OnApproval: t.reviews.hear, Learn: s.Learn,
	})
	started := false
	defer func() {
		left := p.leaveSetup(b, out, run)
		if started && left != nil { // the task runs; its destruction tries again
			p.taskLog(t).Warn("not everything of the setup is gone", "error", left)
			return
		}
		err = errors.Join(err, left)
	}()
	if err != nil {
		return err
	}
	ref, err := builder.BuildSetup(ctx, s)
	if full := errSetupDisk(""); err != nil && errors.As(context.Cause(ctx), &full) {
		return full // and not that something was cancelled
	}
	if err != nil {
		return err
	}
	p.events.emit(t.config, "The setup is done: starting from "+ref, "image", ref)
	startFrom(&pl.Spec, ref)
	if err := t.ports.Listen(); err != nil {
		return &afterSetup{err}
	}
	if _, err := b.Driver.Create(ctx, pl.Spec); err != nil {
		return &afterSetup{err}
	}
	started = true
	p.watchNew(b, t, *pl)
	return nil
}

// afterSetup is an error of a start that came after its setup, which is done.
type afterSetup struct{ error }

func (e *afterSetup) Unwrap() error { return e.error }

// trimSetups keeps the images of setups to the operator's bounds.
func (p *Plugin) trimSetups(ctx context.Context, b *Backend) {
	if b.TrimSetups == nil {
		return
	}
	if err := b.TrimSetups(ctx); err != nil && ctx.Err() == nil {
		p.log.Warn("images of setups are not tidied up; trying again", "error", err)
	}
}

// dropPrivate removes the image that was made for a run alone.
func (p *Plugin) dropPrivate(ctx context.Context, b *Backend, run uuid.UUID) {
	builder, ok := b.Driver.(driver.SetupBuilder)
	if !ok {
		return
	}
	if err := builder.DropPrivate(ctx, setupRun(run)); err != nil {
		p.log.Warn("the image of a setup that was not to be kept stays", "run", run, "error", err)
	}
}

// leaveSetup lets go of what the setup had beside its sandbox. All it printed
// is delivered first, where somebody reads.
func (p *Plugin) leaveSetup(b *Backend, out keeper.Task, run uuid.UUID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.life), removeTimeout)
	defer cancel()
	return errors.Join(b.Outputs.Finish(ctx, out, drainTimeout), b.Control.Forget(run))
}

// setupFailed ends a task that never came to run.
func (p *Plugin) setupFailed(t *task, stopped bool, err error) {
	p.taskLog(t).Error("a start with a setup failed", "error", err)
	var script *driver.SetupError
	var after *afterSetup
	o := outcome{Code: runner.SetupFailed}
	switch {
	case stopped && errors.As(err, &after):
		o.Code, o.Signal = 143, 15
		p.events.emit(t.config, "The start was stopped; what the setup made is kept")
	case stopped:
		o.Code, o.Signal = 143, 15
		p.events.emit(t.config, "The setup was stopped; nothing of it is kept", "stage", "setup")
	case errors.As(err, &after):
		o.Code, o.Err = -1, "the setup is done, and the task could not be started: "+err.Error()
		p.events.emit(t.config, "The task could not be started: "+safeText(err.Error()))
	case errors.As(err, &script):
		p.tellStage(t, runner.SetupFailed)
	default:
		o.Err = err.Error()
		p.events.emit(t.config, "The setup failed: "+safeText(err.Error()), "stage", "setup")
	}
	t.denials.summarise()
	t.end(t.judged(o))
}

// removeSetup takes down what a task's setup has, also one of a plugin that
// died in it.
func removeSetup(ctx context.Context, b *Backend, run uuid.UUID) error {
	s := setupRun(run)
	return errors.Join(
		b.Driver.DestroyContainer(ctx, b.Ref(s)),
		b.Outputs.Finish(ctx, outputOf(b, s, "", ""), 0),
		b.Control.Forget(s),
	)
}
