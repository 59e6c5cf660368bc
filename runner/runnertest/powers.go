package runnertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// A Fake has every power there is.
var (
	_ runner.Runner       = (*Fake)(nil)
	_ runner.Stopper      = (*Fake)(nil)
	_ runner.Signaler     = (*Fake)(nil)
	_ runner.Suspender    = (*Fake)(nil)
	_ runner.UsageReader  = (*Fake)(nil)
	_ runner.ExitReader   = (*Fake)(nil)
	_ runner.OutputReader = (*Fake)(nil)
	_ runner.Prober       = (*Fake)(nil)
	_ runner.ImageChecker = (*Fake)(nil)
	_ runner.ImageRemover = (*Fake)(nil)
)

// StopProcess ends the main process and keeps the sandbox.
func (f *Fake) StopProcess(ctx context.Context, ref, signal string, timeout time.Duration) error {
	s, err := f.begin(ctx, "StopProcess", ref)
	if err != nil {
		return err
	}
	return s.stop(ctx, signal, timeout)
}

// Signal sends a signal to the main process; those of job control freeze and thaw.
func (f *Fake) Signal(ctx context.Context, ref, signal string) error {
	s, err := f.begin(ctx, "Signal", ref)
	if err != nil {
		return err
	}
	sig := signalName(signal)
	switch sig {
	case "":
		return fmt.Errorf("sandbox %s: signal %q: %w", ref, signal, runner.ErrInvalid)
	case "SIGSTOP", "SIGTSTP":
		return s.pause()
	case "SIGCONT":
		return s.unpause()
	}
	s.mu.Lock()
	err, main := s.ready(), s.main
	s.mu.Unlock()
	if err != nil {
		return err
	}
	main.signal(sig)
	return nil
}

// Pause freezes the sandbox; on a frozen one it is nil.
func (f *Fake) Pause(ctx context.Context, ref string) error {
	s, err := f.begin(ctx, "Pause", ref)
	if err != nil {
		return err
	}
	return s.pause()
}

// Unpause thaws the sandbox; on a running one it is nil.
func (f *Fake) Unpause(ctx context.Context, ref string) error {
	s, err := f.begin(ctx, "Unpause", ref)
	if err != nil {
		return err
	}
	return s.unpause()
}

func (s *sandbox) pause() error {
	if err := s.mustRun(); err != nil {
		return err
	}
	s.freeze()
	return nil
}

func (s *sandbox) unpause() error {
	if err := s.mustRun(); err != nil {
		return err
	}
	s.thaw()
	return nil
}

func (s *sandbox) mustRun() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("sandbox %s: %w: it is not running", s.ref, runner.ErrPrecondition)
	}
	return nil
}

// Usage reports a sandbox's resource use.
func (f *Fake) Usage(ctx context.Context, ref string) (runner.Usage, error) {
	s, err := f.begin(ctx, "Usage", ref)
	if err != nil {
		return runner.Usage{}, err
	}
	if err := s.mustRun(); err != nil {
		return runner.Usage{}, err
	}
	if f.opts.Usage != nil {
		return f.opts.Usage(ref), nil
	}
	return runner.Usage{
		Time: time.Now(), CPUTotal: 3 * time.Millisecond, CPUUser: 2 * time.Millisecond, CPUSystem: time.Millisecond,
		MemoryRSS: 1 << 20, MemoryUsage: 2 << 20, MemoryMax: 2 << 20, MemoryMaxKnown: true, Pids: 1,
	}, nil
}

// Exit tells how the main process ended; while it runs that is ErrPrecondition.
func (f *Fake) Exit(ctx context.Context, ref string) (runner.Exit, error) {
	s, err := f.begin(ctx, "Exit", ref)
	if err != nil {
		return runner.Exit{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil || s.main.alive() {
		return runner.Exit{}, fmt.Errorf("sandbox %s: %w: its main process has not exited", ref, runner.ErrPrecondition)
	}
	return s.main.exit, nil
}

// AttachOutput opens the live output of a running sandbox.
func (f *Fake) AttachOutput(ctx context.Context, ref string) (runner.OutputStream, error) {
	s, err := f.begin(ctx, "AttachOutput", ref)
	if err != nil {
		return runner.OutputStream{}, err
	}
	if err := s.mustRun(); err != nil {
		return runner.OutputStream{}, err
	}
	return s.out.attach()
}

// ReadLog reads all that one stream carried so far.
func (f *Fake) ReadLog(ctx context.Context, ref, stream string) (io.ReadCloser, error) {
	s, err := f.begin(ctx, "ReadLog", ref)
	if err != nil {
		return nil, err
	}
	b, err := s.out.read(stream)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Probe reports Options.Findings.
func (f *Fake) Probe(ctx context.Context) runner.Findings {
	if err := f.enter(ctx, "Probe", ""); err != nil {
		return runner.Findings{Reason: err.Error()}
	}
	if f.opts.Findings != nil {
		return f.opts.Findings()
	}
	out := runner.Findings{Healthy: true, Reason: "ready", EngineVersion: "0", Capabilities: f.capabilities()}
	for _, c := range types.Classes() {
		resolved, works := out.Capabilities.Resolved[c]
		cf := runner.ClassFinding{Class: string(c), Runtime: resolved, Works: works}
		if !works {
			cf.Reason = "no runtime of this class here"
		}
		out.Classes = append(out.Classes, cf)
	}
	return out
}

// ImagePresent reports whether an image was pulled, committed or used here.
func (f *Fake) ImagePresent(ctx context.Context, ref string) (bool, error) {
	if err := f.enter(ctx, "ImagePresent", ref); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images[ref], nil
}

// ImageRemove forgets an image.
func (f *Fake) ImageRemove(ctx context.Context, ref string) error {
	if err := f.enter(ctx, "ImageRemove", ref); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.images, ref)
	return nil
}
