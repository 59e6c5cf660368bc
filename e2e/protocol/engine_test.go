package protocol

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestInvariant5EngineDies: an engine without live-restore is killed under
// tasks, whose collector is so far behind that the engine has logged more than
// it passed on. When it is back it says how the tasks ended, and all that it has
// logged is delivered, once, before the client learns of that. A code that it had
// to make up is told as such.
//
// The tasks print less than the engine takes without waiting: what it has in
// hand when it dies, it loses, from its log too.
func TestInvariant5EngineDies(t *testing.T) {
	engine := testenv.StartEngine(t, testenv.EngineOptions{})
	r := newRig(t)
	const many = 100_000
	numbers := numbered("", many) + "up\n"
	rows := []struct {
		name, script, prints string
		tty                  bool
		code                 int
	}{
		{"printing", fmt.Sprint("seq ", many, "; ", up), numbers, false, 143},
		{"printing to a terminal", fmt.Sprint("seq ", many, "; ", up), strings.ReplaceAll(numbers, "\n", "\r\n"), true, 143},
		{"ends meanwhile", "echo before; " + awaitGo + "echo last words; exit 7", "before\nlast words\n", false, 7},
	}
	var works []*work
	var logs []*os.File
	reads := make(chan struct{})
	for _, row := range rows {
		w := r.prepare(t, "CC1", row.script, moreLogs, func(s *host.TaskSpec) { s.Config["tty"] = row.tty })
		stalled := make(chan struct{})
		w.out.when(1, func() { close(stalled); <-reads })
		if err := w.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		<-stalled
		works, logs = append(works, w), append(logs, engineLog(t, w))
	}
	for i, row := range rows {
		so := strings.TrimSuffix(row.prints, "last words\n")
		eventually(t, "all is logged", func() bool { return logged(t, logs[i]) == so })
	}
	frozen, parked := r.suspended(t, "CC1"), r.parkedOne(t)
	engine.Kill(t)
	works[2].release(t)
	close(reads)
	engine.Start(t)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := works[i]
			exit, err := w.Wait(deadline(t))
			// A newer containerd, which dies with this engine, forgets who ends meanwhile.
			forgotten := i == 2 && exit.ExitCode == -1 && strings.Contains(exit.Err, "it does not know")
			if err != nil || !forgotten && (exit.ExitCode != row.code || exit.Err != "") {
				t.Errorf("exit %+v, %v, want code %d", exit, err, row.code)
			}
			// What was printed while the engine was away it may have, or not.
			got, want := w.out.String(), logged(t, logs[i])
			if !strings.HasPrefix(got, want) || !strings.HasPrefix(row.prints, got) {
				t.Errorf("%d bytes came, ending in %q; the engine has logged %d, ending in %q",
					len(got), w.out.tail(40), len(want), want[max(0, len(want)-40):])
			}
		})
	}
	t.Run("K11 frozen", func(t *testing.T) {
		frozen.exits(t, 143)
		if err := r.DestroyTask(deadline(t), frozen.ID(), true); err != nil {
			t.Error(err)
		}
		frozen.gone(t)
	})
	// It was down before the engine was, and is what it was: to be resumed.
	t.Run("K14 parked", func(t *testing.T) {
		eventually(t, "it is resumed", func() bool {
			exit, _, _ := parked.verb(t, "resume")
			return exit.ExitCode == 0
		})
		parked.exits(t, 5)
	})
}

// parkedOne is a task that has been parked, and ends with 5 when it is started again.
func (r *rig) parkedOne(t *testing.T) *work {
	t.Helper()
	w := r.start(t, "CC1", "[ -e /kept ] && exit 5; touch /kept; echo kept; sleep 1000")
	eventually(t, "it has started", func() bool { return w.out.has("kept\n") })
	if exit, _, errs := w.verb(t, "suspend", "-cold"); exit.ExitCode != 0 {
		t.Fatalf("park: %q", errs)
	}
	return w
}

// engineLog is the engine's log file of a task, open: what is in it can be read
// when the container is gone.
func engineLog(t *testing.T, w *work) *os.File {
	t.Helper()
	c, err := w.rig.engine.ContainerInspect(deadline(t), w.container(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(c.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// logged is what a json-file log says of standard output.
func logged(t *testing.T, f *os.File) string {
	t.Helper()
	var text strings.Builder
	for d := json.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)); ; {
		var line struct{ Log, Stream string }
		if err := d.Decode(&line); err == io.EOF || err == io.ErrUnexpectedEOF {
			break // the engine may be writing
		} else if err != nil {
			t.Fatal(err)
		}
		if line.Stream == "stdout" {
			text.WriteString(line.Log)
		}
	}
	return text.String()
}
