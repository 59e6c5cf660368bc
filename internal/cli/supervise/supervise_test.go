package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// script says how the runs of one task go, one element a run, the last for all
// that follow.
type script []step

type step struct {
	lasts     time.Duration // 0: until it is stopped
	exit      Exit
	startErr  error
	waitErr   error
	stopErr   error
	deaf      bool // does not end before the kill timeout
	immortal  bool // does not end when killed either
	startTime time.Duration
}

// machine is a pretended plugin that writes down what is asked of it.
type machine struct {
	scripts map[string]script

	mu    sync.Mutex
	runs  map[string]int
	diary []string
}

var errPermanent = errors.New("permanent")

func (m *machine) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.diary = append(m.diary, fmt.Sprintf(format, args...))
}

func (m *machine) start(ctx context.Context, t jobfile.Task) (Process, error) {
	m.mu.Lock()
	s := m.scripts[t.Name]
	n := min(m.runs[t.Name], len(s)-1)
	m.runs[t.Name]++
	m.mu.Unlock()
	select {
	case <-time.After(s[n].startTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s[n].startErr != nil {
		return nil, s[n].startErr
	}
	m.note("start %s", t.Name)
	p := &process{m: m, name: t.Name, step: s[n], ended: make(chan struct{})}
	if p.step.lasts > 0 {
		time.AfterFunc(p.step.lasts, func() { p.end(p.step.exit) })
	}
	return p, nil
}

type process struct {
	m     *machine
	name  string
	step  step
	once  sync.Once
	exit  Exit
	ended chan struct{}
}

func (p *process) end(e Exit) {
	p.once.Do(func() {
		p.exit = e
		p.m.note("end %s %d", p.name, e.Code)
		close(p.ended)
	})
}

func (p *process) Wait(context.Context) (Exit, error) {
	<-p.ended
	return p.exit, p.step.waitErr
}

func (p *process) Stop(ctx context.Context) error {
	p.m.note("stop %s", p.name)
	if p.step.stopErr != nil {
		return p.step.stopErr
	}
	if !p.step.deaf {
		p.end(Exit{Code: 143, Signal: 15})
		return nil
	}
	select {
	case <-time.After(5 * time.Second):
		p.end(Exit{Code: 137, Signal: 9})
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) Kill(context.Context) error {
	p.m.note("kill %s", p.name)
	if !p.step.immortal {
		p.end(Exit{Code: 137, Signal: 9})
	}
	return nil
}

func task(name, hook string) jobfile.Task {
	t := jobfile.Task{
		Name:    name,
		Restart: jobfile.Restart{Attempts: 1, Interval: time.Minute, Delay: 2 * time.Second, Mode: "fail"},
	}
	if hook, sidecar := strings.CutSuffix(hook, " sidecar"); hook != "" {
		t.Lifecycle = &jobfile.Lifecycle{Hook: hook, Sidecar: sidecar}
	}
	return t
}

func once(t jobfile.Task) jobfile.Task {
	t.Restart.Attempts = 0
	return t
}

func leader(t jobfile.Task) jobfile.Task {
	t.Leader = true
	return t
}

// show writes results as the tests want them: name code and the marks.
func show(results []Result) string {
	var out []string
	for _, r := range results {
		s := fmt.Sprintf("%s %d", r.Task, r.Exit.Code)
		if r.Err != nil {
			s = r.Task + " error"
		}
		if r.Failed {
			s += " failed"
		}
		if r.Victim {
			s += " victim"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestAwaitRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{runs: map[string]int{}, scripts: map[string]script{
			"pre": {{lasts: time.Second}}, "bad": {{startErr: errPermanent}}, "never": {{}},
		}}
		g := New(t.Context(), Options{
			Tasks: []jobfile.Task{task("pre", "prestart"), task("bad", ""), task("never", "poststart")},
			Start: m.start, Recoverable: func(error) bool { return false }, Event: func(string, string) {},
		})
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for name, want := range map[string]string{
			"pre": "", "bad": "task bad never ran", "never": "task never never ran", "none": `there is no task "none"`,
		} {
			go func() {
				err := g.AwaitRunning(t.Context(), name)
				if (want == "") != (err == nil) || err != nil && err.Error() != want {
					t.Errorf("%s: %v, want %q", name, err, want)
				}
			}()
		}
		if err := g.AwaitRunning(cancelled, "never"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v", err)
		}
		g.Run()
		if err := g.AwaitRunning(t.Context(), "pre"); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}
