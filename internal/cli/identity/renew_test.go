package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

func TestPause(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		luck float64
		want time.Duration
	}{
		{time.Hour, 0, 30 * time.Minute}, {time.Hour, 1, 33 * time.Minute},
		{20 * time.Second, 0, 10 * time.Second}, {15 * time.Second, 0, 10 * time.Second}, {15 * time.Second, 1, 11 * time.Second},
		{0, 0, 10 * time.Second}, {-time.Hour, 0, 10 * time.Second},
	} {
		if got := pause(c.left, c.luck); got != c.want {
			t.Errorf("%v left, luck %v: %v, want %v", c.left, c.luck, got, c.want)
		}
	}
}

// diary keeps what a run is told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) change() Change {
	return Change{
		Renewed: func(_ context.Context, task string, id jobfile.Identity) {
			d.note("%s %s %s", task, id.Name, id.ChangeMode)
		},
		Failed: func(task string, err error) { d.note("%s: %v", task, err) },
	}
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// TestRenew: tokens that end are replaced in good time, all of them together and
// those of tasks to come too; the default one stays, and the run's end ends it.
func TestRenew(t *testing.T) {
	p := place(t)
	synctest.Test(t, func(t *testing.T) {
		i, err := New(workload, tasks())
		if err != nil {
			t.Fatal(err)
		}
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { i.Renew(ctx, d.change()); close(over) }()

		before := i.Env("t")
		time.Sleep(34 * time.Second) // half of a minute and a tenth of that
		synctest.Wait()
		if after := i.Env("t"); after["NOMAD_TOKEN"] != before["NOMAD_TOKEN"] || after["NOMAD_TOKEN_slow"] == before["NOMAD_TOKEN_slow"] {
			t.Error("a task that did not start yet has the wrong tokens")
		}
		if got := d.read(); len(got) > 0 {
			t.Errorf("before the task starts: %q", got)
		}
		if err := i.Begin("t", p); err != nil {
			t.Fatal(err)
		}
		files := []string{"secrets/nomad_token", "secrets/nomad_api.jwt", "../alloc/data/slow.jwt"}
		first := contents(t, p, files)
		time.Sleep(34 * time.Second)
		synctest.Wait()
		if second := contents(t, p, files); second[0] != first[0] || second[1] == first[1] || second[2] == first[2] {
			t.Error("the files were not renewed as they should be")
		}
		if got := d.read(); !slices.Equal(got, []string{"t api noop", "t slow restart"}) {
			t.Errorf("told of %q", got)
		}
		cancel()
		<-over
	})
}

// TestRenewFails: a token that can't be written is told of, and tried again; the
// others are renewed.
func TestRenewFails(t *testing.T) {
	p := place(t)
	synctest.Test(t, func(t *testing.T) {
		i, err := New(workload, tasks())
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Begin("t", p); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(p.Task, "secrets")); err != nil {
			t.Fatal(err)
		}
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { i.Renew(ctx, d.change()); close(over) }()
		time.Sleep(67 * time.Second)
		synctest.Wait()
		got := d.read()
		if len(got) != 4 || got[1] != "t slow restart" || got[0] != got[2] ||
			!strings.Contains(got[0], `t: renewal failed: `) || !strings.Contains(got[0], `identity "api": write the token to secrets/nomad_api.jwt: `) {
			t.Errorf("told of %q", got)
		}
		cancel()
		<-over
	})
}

// TestRenewNothing: where no token ends, nothing waits for it.
func TestRenewNothing(t *testing.T) {
	i, err := New(workload, []jobfile.Task{{Name: "t", Identities: []jobfile.Identity{{Name: "default"}}}})
	if err != nil {
		t.Fatal(err)
	}
	i.Renew(t.Context(), Change{})
}

func contents(t *testing.T, p Place, files []string) []string {
	t.Helper()
	var out []string
	for _, f := range files {
		out = append(out, read(t, filepath.Join(p.Task, f)))
	}
	return out
}
