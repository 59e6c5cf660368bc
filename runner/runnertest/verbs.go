package runnertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// name is the Fake's Runner.Name.
const name = "fake"

// Ref is the ref of a run's sandbox, which follows from its id alone.
func Ref(run uuid.UUID) string { return "fake_agent_" + run.String() }

// Name is "fake".
func (f *Fake) Name() string { return name }

// Capabilities reports the classes of Options. Nothing in memory encloses
// anything, so StructuralEgress is never claimed.
func (f *Fake) Capabilities(ctx context.Context) (runner.Capabilities, error) {
	if err := f.enter(ctx, "Capabilities", ""); err != nil {
		return runner.Capabilities{}, err
	}
	return f.capabilities(), nil
}

func (f *Fake) capabilities() runner.Capabilities {
	c := runner.Capabilities{
		Driver:             name,
		ConfinementClasses: slices.Clone(f.opts.Classes),
		Resolved:           map[types.ConfinementClass]string{},
	}
	for _, class := range f.opts.Classes {
		c.Resolved[class] = "fake/" + string(class)
	}
	return c
}

// CreateSandbox makes a sandbox: running and idle without a Task, created with one.
func (f *Fake) CreateSandbox(ctx context.Context, spec runner.SandboxSpec) (runner.Sandbox, error) {
	ref := Ref(spec.RunID)
	if err := f.enter(ctx, "CreateSandbox", ref); err != nil {
		return runner.Sandbox{}, err
	}
	class := spec.ConfinementClass
	if class == "" {
		class = types.CC1
	}
	if err := f.check(spec, class); err != nil {
		return runner.Sandbox{}, fmt.Errorf("run %s: %w", spec.RunID, err)
	}
	spec.Env, spec.Labels = maps.Clone(spec.Env), maps.Clone(spec.Labels)
	s := newSandbox(f, ref, spec)
	f.mu.Lock()
	if f.sandboxes[ref] != nil {
		f.mu.Unlock()
		return runner.Sandbox{}, fmt.Errorf("sandbox %s: %w", ref, runner.ErrExists)
	}
	f.sandboxes[ref] = s
	f.images[spec.Image] = true
	f.mu.Unlock()
	if spec.Task == nil {
		if err := s.startMain(ctx); err != nil {
			f.remove(ref)
			return runner.Sandbox{}, err
		}
	}
	return runner.Sandbox{Ref: ref, Driver: name, EnforcedClass: class}, nil
}

// check refuses what could never run.
func (f *Fake) check(spec runner.SandboxSpec, class types.ConfinementClass) error {
	switch {
	case spec.RunID == uuid.Nil:
		return fmt.Errorf("%w: it is the nil UUID", runner.ErrInvalid)
	case spec.Image == "":
		return fmt.Errorf("%w: no image", runner.ErrInvalid)
	case !slices.Contains(f.opts.Classes, class):
		return fmt.Errorf("class %q: %w", class, runner.ErrClassUnavailable)
	case spec.Task != nil && spec.Task.Idle && len(spec.Task.Argv) > 0:
		return fmt.Errorf("%w: an idle task has no command", runner.ErrInvalid)
	}
	for _, m := range spec.Mounts {
		if err := runner.ValidateMount(m); err != nil {
			return err
		}
	}
	return nil
}

// remove forgets a sandbox and ends what is in it.
func (f *Fake) remove(ref string) {
	f.mu.Lock()
	s := f.sandboxes[ref]
	delete(f.sandboxes, ref)
	f.mu.Unlock()
	if s != nil {
		s.killAll()
		s.out.close()
	}
}

// Exec starts the main process, or an agent in an idle sandbox.
func (f *Fake) Exec(ctx context.Context, ref string, argv []string) (string, error) {
	s, err := f.begin(ctx, "Exec", ref)
	if err != nil {
		return "", err
	}
	if s.spec.Task != nil {
		if len(argv) > 0 {
			return "", fmt.Errorf("sandbox %s: %w: its command is its main process; exec takes none", ref, runner.ErrInvalid)
		}
		return "", s.startMain(ctx)
	}
	if len(argv) == 0 {
		return "", fmt.Errorf("sandbox %s: %w: no command to execute", ref, runner.ErrInvalid)
	}
	f.mu.Lock()
	f.execs++
	id := "fake_exec_" + strconv.Itoa(f.execs)
	f.mu.Unlock()
	p, err := s.launch(ctx, argv, nil, discarded())
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents[id], s.agent = p, p
	return id, nil
}

// Wait blocks until the agent has exited.
func (f *Fake) Wait(ctx context.Context, ref string) (int, error) {
	s, err := f.begin(ctx, "Wait", ref)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	p := s.agent
	if s.spec.Task != nil {
		p = s.main
	}
	s.mu.Unlock()
	if p == nil {
		return 0, fmt.Errorf("sandbox %s: %w: no agent was started", ref, runner.ErrPrecondition)
	}
	select {
	case <-p.done:
		return p.exit.Code, p.exit.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// StopSandbox ends the main process by its stop signal, then removes all.
func (f *Fake) StopSandbox(ctx context.Context, ref string) error {
	if err := f.enter(ctx, "StopSandbox", ref); err != nil {
		return err
	}
	if s, err := f.find(ref); err == nil {
		if err := s.stop(ctx, "", f.opts.Grace); err != nil {
			return err
		}
	}
	f.remove(ref)
	return nil
}

// KillSandbox ends and removes all at once.
func (f *Fake) KillSandbox(ctx context.Context, ref string) error {
	if err := f.enter(ctx, "KillSandbox", ref); err != nil {
		return err
	}
	f.remove(ref)
	return nil
}

// stop thaws, signals, waits and kills. A sandbox that is down already is fine.
func (s *sandbox) stop(ctx context.Context, signal string, grace time.Duration) error {
	if signal == "" && s.spec.Task != nil {
		signal = s.spec.Task.StopSignal
	}
	if signal == "" {
		signal = "SIGTERM"
	}
	sig := signalName(signal)
	if sig == "" {
		return fmt.Errorf("sandbox %s: signal %q: %w", s.ref, signal, runner.ErrInvalid)
	}
	s.thaw()
	s.mu.Lock()
	main := s.main
	s.mu.Unlock()
	if main == nil || !main.alive() {
		return nil
	}
	main.signal(sig)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-main.done:
	case <-t.C:
		main.end(killed)
	case <-ctx.Done():
		return fmt.Errorf("sandbox %s: %w: %w", s.ref, runner.ErrUnavailable, ctx.Err())
	}
	return nil
}

// labels are the sandbox's own and the reserved ones, which win.
func (s *sandbox) labels() map[string]string {
	l := map[string]string{}
	maps.Copy(l, s.spec.Labels)
	l["wardyn.managed"] = "true"
	l["wardyn.run-id"] = s.spec.RunID.String()
	l["wardyn.component"] = "agent"
	return l
}
