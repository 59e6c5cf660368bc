package runnertest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// liar keeps the contract but for one thing.
type liar struct {
	// caught are the checks that must fail, and no others.
	caught []string
	// says is part of what the first of them must say.
	says string
	// lie is the runner; its Fake keeps the contract.
	lie func(f *Fake) runner.Runner
	// hangs: it is caught by running out of time, so only that check is run.
	hangs bool
	// probe is the suite's EgressProbe.
	probe func(t *testing.T, r runner.Runner, ref string)
}

// lying is a Fake of which single verbs can be replaced.
type lying struct {
	*Fake
	caps   func(runner.Capabilities) runner.Capabilities
	create func(ctx context.Context, s runner.SandboxSpec) (runner.Sandbox, error)
	exec   func(ctx context.Context, ref string, argv []string) (string, error)
	wait   func(ctx context.Context, ref string) (int, error)
	status func(ctx context.Context, ref, id string) (runner.Status, error)
	attach func(ctx context.Context, ref string) (runner.Session, error)
	stream func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error)
	stop   func(ctx context.Context, ref string) error
	kill   func(ctx context.Context, ref string) error
	list   func(ctx context.Context) ([]runner.Listed, error)
}

func (l *lying) Capabilities(ctx context.Context) (runner.Capabilities, error) {
	c, err := l.Fake.Capabilities(ctx)
	if l.caps != nil {
		c = l.caps(c)
	}
	return c, err
}

func (l *lying) CreateSandbox(ctx context.Context, s runner.SandboxSpec) (runner.Sandbox, error) {
	if l.create != nil {
		return l.create(ctx, s)
	}
	return l.Fake.CreateSandbox(ctx, s)
}

func (l *lying) Exec(ctx context.Context, ref string, argv []string) (string, error) {
	if l.exec != nil {
		return l.exec(ctx, ref, argv)
	}
	return l.Fake.Exec(ctx, ref, argv)
}

func (l *lying) Wait(ctx context.Context, ref string) (int, error) {
	if l.wait != nil {
		return l.wait(ctx, ref)
	}
	return l.Fake.Wait(ctx, ref)
}

func (l *lying) AgentStatus(ctx context.Context, ref, id string) (runner.Status, error) {
	if l.status != nil {
		return l.status(ctx, ref, id)
	}
	return l.Fake.AgentStatus(ctx, ref, id)
}

func (l *lying) Attach(ctx context.Context, ref string, o runner.AttachOptions) (runner.Session, error) {
	if l.attach != nil {
		return l.attach(ctx, ref)
	}
	return l.Fake.Attach(ctx, ref, o)
}

func (l *lying) ExecStream(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
	if l.stream != nil {
		return l.stream(ctx, ref, s)
	}
	return l.Fake.ExecStream(ctx, ref, s)
}

func (l *lying) StopSandbox(ctx context.Context, ref string) error {
	if l.stop != nil {
		return l.stop(ctx, ref)
	}
	return l.Fake.StopSandbox(ctx, ref)
}

func (l *lying) KillSandbox(ctx context.Context, ref string) error {
	if l.kill != nil {
		return l.kill(ctx, ref)
	}
	return l.Fake.KillSandbox(ctx, ref)
}

func (l *lying) ListSandboxes(ctx context.Context) ([]runner.Listed, error) {
	if l.list != nil {
		return l.list(ctx)
	}
	return l.Fake.ListSandboxes(ctx)
}

var errBroken = errors.New("something else is wrong")

// liars by name.
var liars = map[string]liar{
	"another driver's name": {caught: []string{"C6Capabilities"}, says: `driver "other"`,
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, caps: func(c runner.Capabilities) runner.Capabilities { c.Driver = "other"; return c }}
		}},
	"class is downgraded": {caught: []string{"C6Capabilities"}, says: `enforced "CC1" for "CC2"`,
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, create: func(ctx context.Context, s runner.SandboxSpec) (runner.Sandbox, error) {
				sb, err := f.CreateSandbox(ctx, s)
				sb.EnforcedClass = types.CC1
				return sb, err
			}}
		}},
	"class is claimed that nothing gives": {caught: []string{"C6Capabilities"}, says: "not available",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, caps: func(c runner.Capabilities) runner.Capabilities {
				c.ConfinementClasses = append(c.ConfinementClasses, types.CC3)
				c.Resolved[types.CC3] = "fake/vm"
				return c
			}}
		}},
	"unknown class is taken for a known one": {caught: []string{"C6Capabilities"}, says: `class "CC9"`,
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, create: func(ctx context.Context, s runner.SandboxSpec) (runner.Sandbox, error) {
				if s.ConfinementClass.Rank() == 0 {
					s.ConfinementClass = types.CC2
				}
				return f.CreateSandbox(ctx, s)
			}}
		}},
	"claimed class runs no program": {caught: []string{"C6Capabilities"}, says: "true exits 1",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stream: func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
				if len(s.Argv) == 1 && s.Argv[0] == "true" {
					s.Argv = []string{"false"}
				}
				return f.ExecStream(ctx, ref, s)
			}}
		}},
	"second stop is an error": {caught: []string{"C7CreateStatusStop", "C8KillMissingRef"}, says: "stop 2",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stop: func(ctx context.Context, ref string) error {
				if _, err := f.find(ref); err != nil {
					return err
				}
				return f.StopSandbox(ctx, ref)
			}}
		}},
	"stop stops nothing": {caught: []string{"C7CreateStatusStop"}, says: "want STOPPED",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stop: func(context.Context, string) error { return nil }}
		}},
	"kill of what is gone is an error": {caught: []string{"C8KillMissingRef", "C7CreateStatusStop", "C22NothingIsListed"}, says: "kill:",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, kill: func(ctx context.Context, ref string) error {
				if _, err := f.find(ref); err != nil {
					return err
				}
				return f.KillSandbox(ctx, ref)
			}}
		}},
	"structural egress without a probe": {caught: []string{"C9StructuralEgress"}, says: "no EgressProbe", lie: claimsEgress},
	"structural egress that leaks": {caught: []string{"C9StructuralEgress"}, says: "reached the host", lie: claimsEgress,
		probe: func(t *testing.T, _ runner.Runner, _ string) { t.Error("reached the host") }},
	"exit code is always 0": {caught: []string{"C10WaitExitCode", "C10MainProcessExitCode"}, says: "want 42",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, wait: func(ctx context.Context, ref string) (int, error) {
				_, err := f.Wait(ctx, ref)
				return 0, err
			}}
		}},
	"finished agent has no code": {caught: []string{"C10WaitExitCode", "C10MainProcessExitCode"}, says: "AgentStatus",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, status: func(ctx context.Context, ref, id string) (runner.Status, error) {
				st, err := f.AgentStatus(ctx, ref, id)
				st.ExitCode = nil
				return st, err
			}}
		}},
	"main process takes another command": {caught: []string{"C10MainProcessExitCode"}, says: "want ErrInvalid",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, exec: func(ctx context.Context, ref string, argv []string) (string, error) {
				id, err := f.Exec(ctx, ref, argv)
				if errors.Is(err, runner.ErrInvalid) && argv != nil {
					return "", nil
				}
				return id, err
			}}
		}},
	"attach is broken, not missing": {caught: []string{"C11InteractiveAttach"}, says: errBroken.Error(),
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, attach: func(context.Context, string) (runner.Session, error) { return nil, errBroken }}
		}},
	"detach stops the sandbox": {caught: []string{"C11InteractiveAttach"}, says: "after detaching",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, attach: func(ctx context.Context, ref string) (runner.Session, error) {
				s, err := f.Attach(ctx, ref, runner.AttachOptions{})
				return stopping{s, func() error { return f.StopSandbox(ctx, ref) }}, err
			}}
		}},
	"exec is broken, not missing": {caught: []string{"C12ExecStream", "C6Capabilities", "C8KillMissingRef", "C13LoopbackRelay", "C21TerminalStreams", "C21Parallel"}, says: errBroken.Error(),
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stream: func(context.Context, string, runner.ExecSpec) (*runner.ExecSession, error) {
				return nil, errBroken
			}}
		}},
	"stderr is merged into stdout": {caught: []string{"C12ExecStream"}, says: "to-err",
		lie: func(f *Fake) runner.Runner { return &lying{Fake: f, stream: merged(f)} }},
	"half-close kills the output": {caught: []string{"C12ExecStream"}, says: `stdout ""`,
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stream: func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
				x, err := f.ExecStream(ctx, ref, s)
				if err == nil && len(s.Argv) == 1 && s.Argv[0] == "cat" {
					x.Stdin = &late{to: x.Stdin, end: x.Close}
				}
				return x, err
			}}
		}},
	"only one stream at a time": {caught: []string{"C12ExecStream", "C13LoopbackRelay", "C21Parallel"}, says: errBroken.Error(),
		lie: func(f *Fake) runner.Runner { return &lying{Fake: f, stream: oneAtATime(f)} }},
	"silent relay is torn down": {caught: []string{"C13LoopbackRelay"}, says: "message 1",
		lie: func(f *Fake) runner.Runner { return &lying{Fake: f, stream: impatient(f)} }},
	"wait without an agent is an exit": {caught: []string{"C21WaitNeedsAnAgent", "C8KillMissingRef"}, says: "want an error",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, wait: func(ctx context.Context, ref string) (int, error) {
				code, err := f.Wait(ctx, ref)
				if err != nil && ctx.Err() == nil {
					return 0, nil
				}
				return code, err
			}}
		}},
	"wait outlives its context": {caught: []string{"C21WaitHonoursContext"}, says: "goes on without its context", hangs: true,
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, wait: func(ctx context.Context, ref string) (int, error) {
				ctx.Done()
				return f.Wait(context.WithoutCancel(ctx), ref)
			}}
		}},
	"terminal has a second stream": {caught: []string{"C21TerminalStreams"}, says: "io.EOF at once",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, stream: func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
				x, err := f.ExecStream(ctx, ref, s)
				if err == nil && s.TTY {
					x.Stderr = strings.NewReader("err")
				}
				return x, err
			}}
		}},
	"killed sandbox stays listed": {caught: []string{"C22NothingIsListed"}, says: "still listed",
		lie: func(f *Fake) runner.Runner {
			var seen []runner.Listed
			return &lying{Fake: f, list: func(ctx context.Context) ([]runner.Listed, error) {
				now, err := f.ListSandboxes(ctx)
				seen = append(seen, now...)
				return seen, err
			}}
		}},
	"unknown exec is an exit": {caught: []string{"B6LostExecIsNotAnExit"}, says: "want an error",
		lie: func(f *Fake) runner.Runner {
			return &lying{Fake: f, status: func(ctx context.Context, ref, id string) (runner.Status, error) {
				st, err := f.AgentStatus(ctx, ref, id)
				if errors.Is(err, runner.ErrNotFound) {
					return runner.Status{State: types.StateStopped}, nil
				}
				return st, err
			}}
		}},
}

func claimsEgress(f *Fake) runner.Runner {
	return &lying{Fake: f, caps: func(c runner.Capabilities) runner.Capabilities { c.StructuralEgress = true; return c }}
}

// stopping is a session whose end is the sandbox's.
type stopping struct {
	runner.Session
	stop func() error
}

func (s stopping) Close() error { return errors.Join(s.Session.Close(), s.stop()) }

// late holds what is written back until the writer closes, and then ends all.
type late struct {
	to  io.WriteCloser
	end func() error
}

func (l *late) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "through") {
		return len(b), nil
	}
	return l.to.Write(b)
}

func (l *late) Close() error { return l.end() }

type streams = func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error)

func merged(f *Fake) streams {
	return func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
		x, err := f.ExecStream(ctx, ref, s)
		if err == nil && !s.TTY {
			both, w := io.Pipe()
			var wg sync.WaitGroup
			for _, r := range []io.Reader{x.Stdout, x.Stderr} {
				wg.Go(func() { io.Copy(w, r) })
			}
			go func() { wg.Wait(); w.Close() }()
			x.Stdout, x.Stderr = both, strings.NewReader("")
		}
		return x, err
	}
}

func oneAtATime(f *Fake) streams {
	busy := make(chan struct{}, 1)
	return func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
		select {
		case busy <- struct{}{}:
		default:
			return nil, errBroken
		}
		x, err := f.ExecStream(ctx, ref, s)
		if err != nil {
			<-busy
			return x, err
		}
		end := x.Close
		x.Close = func() error {
			select {
			case <-busy:
			default:
			}
			return end()
		}
		return x, nil
	}
}
