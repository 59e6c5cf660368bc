package keeper

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// Plugin and keeper die at one moment, under a collector that ends at the first
// end of file: the holder keeps its log from ending.
func TestK8LogSurvivesPluginAndKeeper(t *testing.T) {
	w := newWorld(t)
	out := collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	plugin, said := w.plugin(t)
	follows(t, said)
	w.proc.print(stdout, "from the first plugin\n")
	w.delivered(t, int64(len("from the first plugin\n")))
	kill(t, w.Socket)
	must(t, plugin.Process.Kill())
	plugin.Wait()
	w.proc.exit()
	w.proc.log[stdout].WriteString("while nobody was there\n")
	if got, err := w.Resume(t.Context(), w.task, "", true, w.proc); err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	w.proc.print(stdout, "from the next\n")
	if got, want := w.ends(t, out), "from the first plugin\nwhile nobody was there\nfrom the next\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What lies in a FIFO outlives its reader and its writers.
func TestK8UnreadOutputOutlivesAll(t *testing.T) {
	w := newWorld(t)
	collect(t, w.task.Stderr)
	reader, err := os.OpenFile(w.task.Stdout, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	w.follow(t)
	w.proc.print(stdout, "nobody reads this\n")
	w.delivered(t, int64(len("nobody reads this\n")))
	kill(t, w.Socket)
	reader.Close()
	w.proc.exit()
	out := collect(t, w.task.Stdout)
	if got, err := w.Resume(t.Context(), w.task, "", true, w.proc); err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	if got := w.ends(t, out); got != "nobody reads this\n" {
		t.Errorf("got %q", got)
	}
}

// A holder that dies is replaced, and the next has all that the first had.
func TestK8HolderIsReplaced(t *testing.T) {
	w := newWorld(t)
	collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	w.follow(t)
	first := peer(t, HolderSocket(w.Socket))
	killProcess(t, "holder-process", HolderSocket(w.Socket))
	testenv.Eventually(t, "the next holder has the task", func() bool {
		r, err := w.holder().ask(t.Context(), false, request{Op: "list"})
		if err != nil && !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
		return err == nil && strings.Join(r.IDs, " ") == w.task.ID
	})
	if peer(t, HolderSocket(w.Socket)) == first {
		t.Error("the holder did not die")
	}
	if ids, err := w.IDs(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("tasks %v, %v", ids, err)
	}
	must(t, w.Finish(t.Context(), w.task, 0))
	must(t, w.Quit(t.Context()))
}

// Nobody ends a holder under what it holds.
func TestQuitSparesWhatIsHeld(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	kill(t, w.Socket)
	if err := w.Quit(t.Context()); err == nil || !strings.Contains(err.Error(), "holder: it still has 1 tasks") {
		t.Errorf("quit: %v", err)
	}
}
