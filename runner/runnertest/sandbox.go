package runnertest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sandbox is one of a Fake's. Its states are those of the contract: created
// (main is nil), running, frozen (shut), ended.
type sandbox struct {
	ref  string
	spec runner.SandboxSpec
	fake *Fake
	gate *gate
	out  *output
	loop loopback

	mu       sync.Mutex
	starting bool
	shut     bool
	main     *Process
	agents   map[string]*Process // started by Exec, by id
	agent    *Process            // the latest of them
	side     map[*Process]bool   // started by ExecStream and Attach
}

func newSandbox(f *Fake, ref string, spec runner.SandboxSpec) *sandbox {
	tty := spec.Task != nil && spec.Task.TTY
	return &sandbox{
		ref: ref, spec: spec, fake: f, gate: newGate(), out: newOutput(!tty),
		agents: map[string]*Process{}, side: map[*Process]bool{},
	}
}

// startMain starts the main process, its output first handed to the sink.
func (s *sandbox) startMain(ctx context.Context) error {
	s.mu.Lock()
	if s.starting || s.main != nil && s.main.alive() {
		s.mu.Unlock()
		return fmt.Errorf("sandbox %s: %w: its main process was started already", s.ref, runner.ErrPrecondition)
	}
	s.starting = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.starting = false
		s.mu.Unlock()
	}()
	s.out.reopen()
	if err := s.follow(ctx); err != nil {
		s.out.close()
		return fmt.Errorf("sandbox %s: output: %w", s.ref, err)
	}
	argv, prog := s.command()
	p := &Process{Argv: argv, Env: s.env(nil), Stdin: strings.NewReader("")}
	p.TTY = s.spec.Task != nil && s.spec.Task.TTY
	p.Stdout, p.Stderr = s.gated(p, stream{s.out, streamStdout}), s.gated(p, stream{s.out, streamStderr})
	if p.TTY {
		p.Stderr = p.Stdout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.start(ctx, prog, func() {
		s.out.close()
		s.killSide()
	})
	s.main = p
	return nil
}

// follow hands the output to the task's sink; without one it is discarded.
func (s *sandbox) follow(ctx context.Context) error {
	if s.spec.Task == nil || s.spec.Task.Output == nil {
		return nil
	}
	o, err := s.out.attach()
	if err != nil {
		return err
	}
	return s.spec.Task.Output.Follow(ctx, s.ref, o)
}

// command is the main process's argv and program. A name no program goes by
// is an executable the image lacks.
func (s *sandbox) command() ([]string, Program) {
	t := s.spec.Task
	if t == nil || t.Idle {
		return []string{"idle"}, Idle
	}
	argv := append(slices.Clone(t.Entrypoint), t.Argv...)
	if len(argv) == 0 {
		return nil, s.fake.opts.Main
	}
	if prog, ok := s.fake.programs[argv[0]]; ok {
		return argv, prog
	}
	return argv, func(_ context.Context, p *Process) int {
		fmt.Fprintf(p.Stderr, "%s: not found\n", argv[0])
		return 127
	}
}

// env is the sandbox's environment and more, sorted.
func (s *sandbox) env(more []string) []string {
	all := maps.Clone(s.spec.Env)
	if all == nil {
		all = map[string]string{}
	}
	for _, kv := range more {
		k, v, _ := strings.Cut(kv, "=")
		all[k] = v
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out
}

func (s *sandbox) gated(p *Process, to io.Writer) io.Writer {
	return gated{gate: s.gate, done: func() <-chan struct{} { return p.done }, to: to}
}

// running reports whether the main process lives, frozen or not.
func (s *sandbox) running() bool { return s.main != nil && s.main.alive() }

// ready is nil when a new process can be started in the sandbox. s.mu is held.
func (s *sandbox) ready() error {
	switch {
	case !s.running():
		return fmt.Errorf("sandbox %s: %w: it is not running", s.ref, runner.ErrPrecondition)
	case s.shut:
		return fmt.Errorf("sandbox %s: %w: it is suspended; resume it first", s.ref, runner.ErrPrecondition)
	}
	return nil
}

// killAll thaws the sandbox and ends every process in it.
func (s *sandbox) killAll() {
	s.thaw()
	s.mu.Lock()
	main := s.main
	s.mu.Unlock()
	if main != nil {
		main.end(killed)
	}
	s.killSide()
}

// killSide ends what runs beside the main process: it cannot outlive it.
func (s *sandbox) killSide() {
	s.mu.Lock()
	side := slices.Collect(maps.Keys(s.side))
	side = slices.AppendSeq(side, maps.Values(s.agents))
	s.mu.Unlock()
	for _, p := range side {
		p.end(killed)
	}
}

var killed = runner.Exit{Code: 137, Signal: 9}

func (s *sandbox) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	s.gate.shut()
}

func (s *sandbox) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = false
	s.gate.lift()
}
