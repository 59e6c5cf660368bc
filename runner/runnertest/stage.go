package runnertest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// What a test does behind the contract's back.

// Finish ends a sandbox's main process in a given way: an exit code, out of
// memory, a crash of the runtime (Exit.Err).
func (f *Fake) Finish(ref string, e runner.Exit) error {
	s, err := f.find(ref)
	if err != nil {
		return err
	}
	s.mu.Lock()
	main := s.main
	s.mu.Unlock()
	if main == nil {
		return fmt.Errorf("sandbox %s: %w: not started", ref, runner.ErrPrecondition)
	}
	main.end(e)
	return nil
}

// Vanish removes a sandbox as somebody else's hand on the engine would.
func (f *Fake) Vanish(ref string) { f.remove(ref) }

// Print makes a sandbox's main process print to "stdout" or "stderr". It
// returns when every connected reader has taken it.
func (f *Fake) Print(ref, stream, text string) error {
	p, err := f.Main(ref)
	if err != nil {
		return err
	}
	w := p.Stdout
	if stream == "stderr" {
		w = p.Stderr
	}
	_, err = w.Write([]byte(text))
	return err
}

// Main is a sandbox's main process, to see what it was started with.
func (f *Fake) Main(ref string) (*Process, error) {
	s, err := f.find(ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		return nil, fmt.Errorf("sandbox %s: %w: not started", ref, runner.ErrPrecondition)
	}
	return s.main, nil
}

// Spec is what a sandbox was created from.
func (f *Fake) Spec(ref string) (runner.SandboxSpec, error) {
	s, err := f.find(ref)
	if err != nil {
		return runner.SandboxSpec{}, err
	}
	return s.spec, nil
}

// Left names everything that exists: sandboxes by ref, volumes as
// "volume:NAME". A test that cleans up after itself ends with none.
func (f *Fake) Left() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Collect(maps.Keys(f.sandboxes))
	for v := range f.volumes {
		out = append(out, "volume:"+v)
	}
	slices.Sort(out)
	return out
}
