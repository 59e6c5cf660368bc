package protocol

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

const (
	lines = 200_000
	// chunk is the most that a killed copier may give twice, a stream.
	chunk = 16 << 10
)

// loud prints lines to both streams at once and waits to be released.
const loud = `seq 200000 | sed 's/^/err /' >&2 & seq 200000 | sed 's/^/out /'; wait; ` + awaitGo + "exit 5"

func moreLogs(s *host.TaskSpec) { s.Logs = host.LogSpec{MaxFiles: 2, MaxFileMB: 200} }

// TestK8EveryLine: whatever dies while a task of each class prints, every line
// arrives, in order, from the same container, and so does the exit code.
func TestK8EveryLine(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name     string
		dup      int // bytes that may come twice, a stream
		launches int // of the plugin
		fault    func(t *testing.T)
	}{
		{"undisturbed", 0, 0, func(*testing.T) {}},
		{"plugin killed", chunk, 1, func(t *testing.T) { kill(t, r.Pid()) }},
		{"keeper killed", chunk, 0, func(t *testing.T) { kill(t, r.keeper(t)) }},
		{"both killed", chunk, 1, func(t *testing.T) { kill(t, r.keeper(t), r.Pid()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			launches := r.Launches()
			loud := r.printing(t)
			loud.during(t, c.fault)
			loud.arrive(t, c.dup)
			if got := r.Launches() - launches; got != c.launches {
				t.Errorf("the plugin was launched %d times more, want %d", got, c.launches)
			}
		})
	}
	// With the agent: its log collection ends here too, and the next goes on.
	t.Run("all killed", func(t *testing.T) {
		loud := r.printing(t)
		var handles []host.TaskHandle
		for _, w := range loud.works {
			handles = append(handles, w.stored(t))
		}
		loud.during(t, func(t *testing.T) { kill(t, r.keeper(t), r.Pid()) })
		r.restart(t)
		for i, w := range loud.works {
			w.resume(t, handles[i])
		}
		loud.arrive(t, chunk)
	})
}

func kill(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill %d: %v", pid, err)
		}
	}
}

// printing are loud tasks, one under each runtime, the output of which is not
// read beyond a third before during.
type printing struct {
	works  []*work
	before []string // their containers
	third  chan struct{}
	goOn   chan struct{}
}

func (r *rig) printing(t *testing.T) *printing {
	t.Helper()
	runtimes := testenv.Runtimes(t)
	p := &printing{third: make(chan struct{}, len(runtimes)), goOn: make(chan struct{})}
	for _, rt := range runtimes {
		w := r.prepare(t, testenv.Class(rt), loud, moreLogs)
		w.out.when(len(numbered("out ", lines))/3, func() { p.third <- struct{}{}; <-p.goOn })
		if err := w.Start(deadline(t)); err != nil {
			close(p.goOn)
			t.Fatal(err)
		}
		p.works, p.before = append(p.works, w), append(p.before, w.container(t))
	}
	return p
}

// during does something when all have printed a third, before more is read.
func (p *printing) during(t *testing.T, fault func(*testing.T)) {
	t.Helper()
	defer close(p.goOn)
	ctx := deadline(t)
	for range p.works {
		select {
		case <-p.third:
		case <-ctx.Done():
			t.Fatal("the tasks do not print")
		}
	}
	fault(t)
}

// arrive ends the tasks when their last lines have come, and checks all that
// they gave.
func (p *printing) arrive(t *testing.T, dup int) {
	t.Helper()
	wantOut, wantErr := numbered("out ", lines), numbered("err ", lines)
	for i, w := range p.works {
		w.endsIn(t, fmt.Sprint("\nout ", lines, "\n"), fmt.Sprint("\nerr ", lines, "\n"))
		w.wholeAfter(t, p.before[i], wantOut, wantErr, dup)
	}
}

// wholeAfter ends the loud task and checks all that it gave: the same container
// to the end, its code, every line.
func (w *work) wholeAfter(t *testing.T, before, wantOut, wantErr string, dup int) {
	t.Helper()
	if after := w.container(t); after != before {
		t.Errorf("container %s, before the fault %s", after, before)
	}
	w.release(t)
	w.exits(t, 5)
	if err := seam(w.out.String(), wantOut, dup); err != nil {
		t.Errorf("standard output: %v", err)
	}
	if err := seam(w.err.String(), wantErr, dup); err != nil {
		t.Errorf("standard error: %v", err)
	}
	w.gone(t)
}

// TestK8BeyondTheBacklog: what a task printed while nobody was there, and the
// engine has dropped since, is owned up to in the log and in an event.
func TestK8BeyondTheBacklog(t *testing.T) {
	r := newRig(t)
	const wide, count = 16000, 9000 // 144 MB, of which the engine keeps 100
	script := fmt.Sprintf("echo first; %s echo second; yes $(head -c %d /dev/zero | tr '\\0' x) | head -n %d; touch /local/done; "+
		"while [ ! -e /local/end ]; do sleep 0.1; done; echo last", awaitGo, wide-1, count)
	w := r.start(t, "CC1", script, moreLogs)
	eventually(t, "the first line", func() bool { return w.out.has("first\n") })
	handle, keeper, begun := w.stored(t), r.keeper(t), time.Now()
	r.Close()
	syscall.Kill(keeper, syscall.SIGKILL)
	w.release(t)
	eventually(t, "the task has printed", func() bool { return exists(w, "done") })
	r.Plugin = r.launch(t, nil)
	w.task(t)
	if err := w.Restore(deadline(t), handle); err != nil {
		t.Fatal(err)
	}
	touch(t, w, "end")
	w.exits(t, 0)
	// The engine does not say how much it has dropped, so nobody can count it.
	said := regexp.MustCompile(`^first\n\[wardyn\] an unknown number of bytes lost while the driver was down; ` +
		`what follows was printed from (20\S+Z) on\n`).FindStringSubmatch(w.out.String())
	var at time.Time
	var err error
	if said != nil {
		at, err = time.Parse(time.RFC3339, said[1])
	}
	if said == nil || err != nil || at.Before(begun.Truncate(time.Second)) || at.After(time.Now()) {
		t.Fatalf("nothing says that output is lost (%d bytes came): %.200q", w.out.Len(), w.out.String())
	}
	if kept := w.out.Len() - len(said[0]); kept < 50<<20 || kept >= wide*count {
		t.Errorf("%d bytes came after that, of %d", kept, wide*count)
	}
	if !strings.HasSuffix(w.out.tail(6), "last\n") {
		t.Errorf("the output ends in %q", w.out.tail(20))
	}
	r.told(t, handle.Config.ID, "nknown number of bytes")
}

// endsIn waits for the last lines of both streams.
func (w *work) endsIn(t *testing.T, out, err string) {
	t.Helper()
	end := time.Now().Add(limit)
	for !strings.HasSuffix(w.out.tail(20), out) || !strings.HasSuffix(w.err.tail(20), err) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %d bytes of standard output, ending in %q; %d of standard error, ending in %q",
				limit, w.out.Len(), w.out.tail(20), w.err.Len(), w.err.tail(20))
		}
		time.Sleep(50 * time.Millisecond)
	}
}
