package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

func TestD6OutputReachesBothFIFOs(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	out, errs := collect(t, w.task.Stdout), collect(t, w.task.Stderr)
	w.proc.print(stdout, "one\n")
	w.proc.print(stderr, "two\n")
	w.proc.print(stdout, "no newline at the end")
	w.proc.exit()
	st, err := w.Wait(t.Context(), "t")
	must(t, err)
	if st.State != Ended || st.Delivered != [2]int64{25, 4} {
		t.Errorf("status %+v", st)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); got != "one\nno newline at the end" {
		t.Errorf("stdout %q", got)
	}
	if got := whole(t, errs); got != "two\n" {
		t.Errorf("stderr %q", got)
	}
	if st, _ := w.Status(t.Context(), "t"); st.State != Unknown {
		t.Errorf("after Finish: %+v", st)
	}
}

// A terminal's output is not framed and all stdout; log files may be /dev/null.
func TestD6TerminalAndDisabledLogs(t *testing.T) {
	w := newWorld(t)
	out := collect(t, w.task.Stdout)
	w.task.Stderr = os.DevNull
	o, err := w.proc.AttachOutput(t.Context(), "")
	must(t, err)
	o.Framed, o.Early = false, []byte("early ")
	must(t, w.Sink(w.task).Follow(t.Context(), "", o))
	w.proc.conn.Write([]byte("and late"))
	w.proc.exit()
	if _, err := w.Wait(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); got != "early and late" {
		t.Errorf("stdout %q", got)
	}
}

// Trap 27: nothing waits for a reader that is not there; the end of a task
// does not either.
func TestK8NobodyReads(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	done := make(chan struct{})
	go func() {
		for range 100 { // more than a FIFO and two sockets hold
			w.proc.print(stdout, strings.Repeat("x", 64<<10))
		}
		close(done)
	}()
	st, err := w.Status(t.Context(), "t")
	if err != nil || st.State != Following {
		t.Fatalf("%+v, %v", st, err)
	}
	must(t, w.Finish(t.Context(), w.task, 50*time.Millisecond))
	testenv.Await(t, "the process goes on after Finish", done)
}

// A collector that dies and comes back goes on where it was.
func TestK8ReaderDiesAndComesBack(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	collect(t, w.task.Stderr)
	f, err := os.Open(w.task.Stdout)
	must(t, err)
	w.proc.print(stdout, "first\n")
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil || line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	f.Close()
	for i := range 50 {
		w.proc.print(stdout, fmt.Sprintf("line %d\n", i))
	}
	out := collect(t, w.task.Stdout)
	w.proc.exit()
	if _, err := w.Wait(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); !strings.HasPrefix(got, "line 0\n") || !strings.HasSuffix(got, "line 49\n") {
		t.Errorf("got %q", got)
	}
}

// One keeper a socket, however many ask for one at once; none waits behind it.
func TestK8OneKeeper(t *testing.T) {
	w := newWorld(t)
	serving := make(chan int32, 8)
	var wg sync.WaitGroup
	for range cap(serving) {
		wg.Go(func() {
			if _, err := w.keeper().ask(t.Context(), true, request{Op: "list"}); err != nil {
				t.Error(err)
			}
			serving <- peer(t, w.Socket)
		})
	}
	wg.Wait()
	close(serving)
	first := <-serving
	for pid := range serving {
		if pid != first {
			t.Errorf("processes %d and %d both serve", first, pid)
		}
	}
	if n := processes(w.Command); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// processes counts those with these arguments.
func processes(argv []string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, f := range files {
		b, _ := os.ReadFile(f) // one that has ended is none
		if _, args, _ := strings.Cut(string(b), "\x00"); args == strings.Join(argv[1:], "\x00")+"\x00" {
			n++
		}
	}
	return n
}

// Keeper and holder end by themselves when they have had nothing to do for their
// time, and leave nothing.
func TestIdleDaemonsEnd(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Dir(w.Socket)
	c := idlingClientOf(w.Socket, time.Second)
	for _, d := range []daemon{c.keeper(), c.holder()} {
		testenv.Eventually(t, "one has answered", func() bool { // which it may be too slow for
			_, err := d.ask(t.Context(), true, request{Op: "list"})
			return err == nil
		})
	}
	testenv.Eventually(t, "nothing is left of them", func() bool { return len(leftBy(dir)) == 0 })
}

// TestQuitAfterAKill: a keeper that was killed leaves its socket and its lock
// behind; nobody waits for it.
func TestQuitAfterAKill(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	kill(t, w.Socket)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, w.Finish(ctx, w.task, 0))
	must(t, w.Quit(ctx))
	for _, path := range []string{w.Socket, w.Socket + ".lock"} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The client dies: the keeper goes on, and the next client finds it at work.
func TestK8ClientGoesAndComes(t *testing.T) {
	w := newWorld(t)
	out := collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	w.follow(t)
	w.proc.print(stdout, "before\n")
	w.delivered(t, 7) // hence the keeper has the log file open
	w.Client.Close()
	other := clientOf(w.Socket)
	defer other.Close()
	if got, err := other.Resume(t.Context(), w.task, "", true, w.proc); got.Lost != 0 || err != nil {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	w.proc.print(stdout, "after\n")
	w.proc.exit()
	if _, err := other.Wait(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	must(t, other.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); got != "before\nafter\n" {
		t.Errorf("got %q", got)
	}
}
