package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func TestGroup(t *testing.T) {
	s := time.Second
	ends := func(code int) script { return script{{lasts: s, exit: Exit{Code: code}}} }
	for name, c := range map[string]struct {
		tasks   []jobfile.Task
		scripts map[string]script
		service bool
		act     func(g *Group) // beside Run
		want    string
		diary   []string
	}{
		"one task": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": ends(0)},
			want: "a 0", diary: []string{"start a", "end a 0"},
		},
		"exit code after the attempts": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": ends(3)},
			want: "a 3 failed", diary: []string{"start a", "end a 3", "start a", "end a 3"},
		},
		"the second attempt ends well": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {ends(3)[0], ends(0)[0]}},
			want: "a 0", diary: []string{"start a", "end a 3", "start a", "end a 0"},
		},
		"a service is restarted": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": ends(0)}, service: true,
			want: "a 0 failed", diary: []string{"start a", "end a 0", "start a", "end a 0"},
		},
		"lifecycle in order": {
			tasks: []jobfile.Task{task("main", ""), task("post", "poststart"), task("clean", "poststop"), task("pre", "prestart"), task("side", "prestart sidecar")},
			scripts: map[string]script{
				"pre": ends(0), "side": {{startTime: time.Millisecond}}, "main": {{lasts: 5 * s}}, "post": {{lasts: 2 * s}}, "clean": ends(0),
			},
			want: "main 0, post 0, clean 0, pre 0, side 143 victim",
			diary: []string{"start pre", "start side", "end pre 0", "start main", "start post", "end post 0", "end main 0",
				"stop side", "end side 143", "start clean", "end clean 0"},
		},
		"a failed prestart task stops all, poststop runs": {
			tasks:   []jobfile.Task{once(task("pre", "prestart")), task("side", "prestart sidecar"), task("main", ""), task("clean", "poststop")},
			scripts: map[string]script{"pre": ends(4), "side": {{}}, "main": ends(0), "clean": ends(0)},
			want:    "pre 4 failed, side 143 victim, clean 0",
		},
		"a failed task takes the others along": {
			tasks: []jobfile.Task{task("b", ""), once(task("a", ""))}, scripts: map[string]script{"a": ends(7), "b": {{}}},
			want: "b 143 victim, a 7 failed", diary: nil,
		},
		"the leader ends the others": {
			tasks: []jobfile.Task{leader(task("a", "")), task("b", "")}, scripts: map[string]script{"a": ends(0), "b": {{}}},
			want: "a 0, b 143 victim",
		},
		"a start that cannot work": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startErr: errPermanent}}},
			want: "a error failed", diary: nil,
		},
		"a start that works the second time": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startErr: errors.New("busy")}, ends(0)[0]}},
			want: "a 0", diary: []string{"start a", "end a 0"},
		},
		"a lost task counts as failed": {
			tasks: []jobfile.Task{once(task("a", ""))}, scripts: map[string]script{"a": {{lasts: s, waitErr: errors.New("lost")}}},
			want: "a error failed",
		},
		"stop": {
			tasks: []jobfile.Task{task("a", ""), task("clean", "poststop")}, scripts: map[string]script{"a": {{}}, "clean": ends(0)},
			act:  func(g *Group) { time.Sleep(s); g.Stop("interrupted") },
			want: "a 143, clean 0", diary: []string{"start a", "stop a", "end a 143", "start clean", "end clean 0"},
		},
		"stop before it began": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{}}},
			act: nil, want: "early: ",
		},
		"stop during the delay of a restart": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": ends(3)},
			act:  func(g *Group) { time.Sleep(2 * s); g.Stop("interrupted") },
			want: "a 3", diary: []string{"start a", "end a 3"},
		},
		"stop while a start is under way": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startTime: 10 * s}}},
			act:  func(g *Group) { time.Sleep(s); g.Stop("interrupted") },
			want: "a 143", diary: []string{"start a", "stop a", "end a 143"},
		},
		"stop of a deaf task": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{deaf: true}}},
			act:  func(g *Group) { time.Sleep(s); g.Stop("interrupted") },
			want: "a 137", diary: []string{"start a", "stop a", "end a 137"},
		},
		"stop that fails is followed by a kill": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{stopErr: errors.New("no")}}},
			act:  func(g *Group) { time.Sleep(s); g.Stop("interrupted") },
			want: "a 137", diary: []string{"start a", "stop a", "kill a", "end a 137"},
		},
		"kill of a deaf task": {
			tasks: []jobfile.Task{task("a", ""), task("clean", "poststop")}, scripts: map[string]script{"a": {{deaf: true}}, "clean": ends(0)},
			act:  func(g *Group) { time.Sleep(s); g.Stop("interrupted"); time.Sleep(s); g.Kill() },
			want: "a 137", diary: []string{"start a", "stop a", "kill a", "end a 137"},
		},
		"kill while a start is under way": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startTime: time.Hour}}},
			act:  func(g *Group) { time.Sleep(s); g.Kill() },
			want: "a error", diary: nil,
		},
		"what survives a kill is given up": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{lasts: time.Hour, deaf: true, immortal: true}}},
			act:  func(g *Group) { time.Sleep(s); g.Kill() },
			want: "a error", diary: []string{"start a", "kill a", "end a 0"},
		},
		"stop in the poststop phase": {
			tasks: []jobfile.Task{task("a", ""), task("clean", "poststop")}, scripts: map[string]script{"a": ends(0), "clean": {{}}},
			act:  func(g *Group) { time.Sleep(3 * s); g.Stop("interrupted") },
			want: "a 0, clean 143",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{scripts: c.scripts, runs: map[string]int{}}
				g := New(t.Context(), Options{
					Tasks: c.tasks, Batch: !c.service, Start: m.start,
					Recoverable: func(err error) bool { return !errors.Is(err, errPermanent) },
					Event:       func(string, string) {},
				})
				want, early := strings.CutPrefix(c.want, "early: ")
				if early {
					g.Stop("interrupted")
				} else if c.act != nil {
					go c.act(g)
				}
				if got := show(g.Run()); got != want {
					t.Errorf("results %q, want %q", got, want)
				}
				time.Sleep(2 * time.Hour) // let what was left behind come to its end
				m.mu.Lock()
				defer m.mu.Unlock()
				if c.diary != nil && !slices.Equal(m.diary, c.diary) {
					t.Errorf("diary %q, want %q", m.diary, c.diary)
				}
			})
		})
	}
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
