package supervise

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// groupCase is a group of scripted tasks and what becomes of them.
type groupCase struct {
	tasks   []jobfile.Task
	scripts map[string]script
	service bool
	act     func(g *Group) // beside Run
	// want are the results; "early: " before them stops the group before it runs.
	want  string
	diary []string // nil is not looked at
}

const s = time.Second

func ends(code int) script { return script{{lasts: s, exit: Exit{Code: code}}} }

// TestGroupEnds: by themselves, tasks end, are restarted and follow each other.
func TestGroupEnds(t *testing.T) {
	eachGroup(t, map[string]groupCase{
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
	})
}

// TestGroupStops: a stop ends what runs, starts nothing but what cleans up, and
// is followed by a kill where it does not work.
func TestGroupStops(t *testing.T) {
	eachGroup(t, map[string]groupCase{
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
		"stop in the poststop phase": {
			tasks: []jobfile.Task{task("a", ""), task("clean", "poststop")}, scripts: map[string]script{"a": ends(0), "clean": {{}}},
			act:  func(g *Group) { time.Sleep(3 * s); g.Stop("interrupted") },
			want: "a 0, clean 143",
		},
	})
}

// TestGroupKills: a kill ends everything at once.
func TestGroupKills(t *testing.T) {
	eachGroup(t, map[string]groupCase{
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
	})
}

// TestGroupRestarts: who asks for a restart gets one, after the task's own stop;
// it counts where it stands for a failure.
func TestGroupRestarts(t *testing.T) {
	failed := func(g *Group) { time.Sleep(s); g.Restart("a", "check", true) }
	twice := func(failure bool) func(g *Group) {
		return func(g *Group) {
			for range 2 {
				time.Sleep(10 * s)
				g.Restart("a", "because", failure)
			}
			time.Sleep(10 * s)
			g.Stop("interrupted")
		}
	}
	eachGroup(t, map[string]groupCase{
		"a failure counts": {
			tasks: []jobfile.Task{task("a", ""), task("b", "")}, scripts: map[string]script{"a": {{}}, "b": {{}}}, act: twice(true), service: true,
			want: "a 143 failed, b 143 victim",
		},
		"anything else does not": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{}}}, act: twice(false), service: true,
			want:  "a 143",
			diary: []string{"start a", "stop a", "end a 143", "start a", "stop a", "end a 143", "start a", "stop a", "end a 143"},
		},
		"a restart that does not count is at once": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{}, ends(0)[0]}},
			act: func(g *Group) {
				time.Sleep(s)
				g.Restart("a", "because", false)
				time.Sleep(s / 2)
				g.Stop("interrupted")
			},
			want: "a 143", diary: []string{"start a", "stop a", "end a 143", "start a", "stop a", "end a 143"},
		},
		"a failure without attempts ends the task": {
			tasks: []jobfile.Task{once(task("a", ""))}, scripts: map[string]script{"a": {{}}}, act: failed, service: true,
			want: "a 143 failed", diary: []string{"start a", "stop a", "end a 143"},
		},
		"asked for while it starts": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startTime: 2 * s}, ends(0)[0]}},
			act:  func(g *Group) { time.Sleep(s); g.Restart("a", "because", false) },
			want: "a 0", diary: []string{"start a", "stop a", "end a 143", "start a", "end a 0"},
		},
		"asked for between two runs": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {ends(3)[0], {lasts: s}}},
			act:  func(g *Group) { time.Sleep(2 * s); g.Restart("a", "because", false) },
			want: "a 0", diary: []string{"start a", "end a 3", "start a", "end a 0"},
		},
		"a deaf task is killed after its time": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{deaf: true}, ends(0)[0]}},
			act:  func(g *Group) { time.Sleep(s); g.Restart("a", "because", false) },
			want: "a 0", diary: []string{"start a", "stop a", "end a 137", "start a", "end a 0"},
		},
		"a stop during the restart is the last word": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{deaf: true}}},
			act:  func(g *Group) { time.Sleep(s); g.Restart("a", "because", false); time.Sleep(s); g.Stop("interrupted") },
			want: "a 137", diary: []string{"start a", "stop a", "end a 137"},
		},
		"nobody of that name, and after its end": {
			tasks: []jobfile.Task{task("a", ""), task("b", "")}, scripts: map[string]script{"a": ends(0), "b": {{lasts: 5 * s}}},
			act:  func(g *Group) { g.Restart("c", "because", true); time.Sleep(2 * s); g.Restart("a", "because", false) },
			want: "a 0, b 0",
		},
	})
}

// TestGroupFails: who says that a task can't go on ends it for good, and no
// restart policy is asked.
func TestGroupFails(t *testing.T) {
	fail := func(g *Group) { time.Sleep(s); g.Fail("a", "because") }
	eachGroup(t, map[string]groupCase{
		"it runs": {
			tasks: []jobfile.Task{task("a", ""), task("b", "")}, scripts: map[string]script{"a": {{}}, "b": {{}}}, act: fail, service: true,
			want: "a 143 failed, b 143 victim", diary: nil,
		},
		"it is being started": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{startTime: 2 * s}}}, act: fail, service: true,
			want: "a 143 failed", diary: []string{"start a", "stop a", "end a 143"},
		},
		"it was over": {
			tasks: []jobfile.Task{task("a", ""), task("b", "")}, scripts: map[string]script{"a": ends(0), "b": {{lasts: 5 * s}}},
			act:  func(g *Group) { time.Sleep(s); fail(g) },
			want: "a 0, b 0",
		},
		"a stop during that is the last word": {
			tasks: []jobfile.Task{task("a", "")}, scripts: map[string]script{"a": {{deaf: true}}},
			act:  func(g *Group) { fail(g); time.Sleep(s); g.Stop("interrupted") },
			want: "a 137", diary: []string{"start a", "stop a", "end a 137"},
		},
	})
}

func eachGroup(t *testing.T, cases map[string]groupCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c groupCase) run(t *testing.T) {
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
}
