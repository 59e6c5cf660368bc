package keeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// lagging is an engine whose log comes behind what it passes on.
type lagging struct {
	*process
	onAttach func() // runs right after a fresh attach
	onRead   func() // runs once, right after stdout's log was read
	reads    [streams]int
	hold     int // how many reads see only what the log had at first
	first    [streams]int
}

func (l *lagging) AttachOutput(ctx context.Context, ref string) (runner.OutputStream, error) {
	o, err := l.process.AttachOutput(ctx, ref)
	if l.onAttach != nil {
		l.onAttach()
	}
	return o, err
}

// ReadLog has whole lines only, as engines do.
func (l *lagging) ReadLog(_ context.Context, _, name string) (io.ReadCloser, error) {
	s := stdout
	if name == "stderr" {
		s = stderr
	}
	if s == stdout && l.onRead != nil {
		defer l.onRead()
		l.onRead = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.Clone(l.log[s].Bytes())
	if l.reads[s]++; l.reads[s] <= l.hold {
		text = text[:l.first[s]]
	}
	return io.NopCloser(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1])), nil
}

// interrupted is a world whose keeper was killed after it had delivered text.
func interrupted(t *testing.T, text string) (*world, *lagging, <-chan string) {
	t.Helper()
	w := newWorld(t)
	out := collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	w.follow(t)
	w.proc.print(stdout, text)
	w.delivered(t, int64(len(text)))
	kill(t, w.Socket)
	w.proc.exit()
	w.proc.conn = nil
	return w, &lagging{process: w.proc, first: [streams]int{len(text)}}, out
}

// ends lets the process end and returns all that the collector got.
func (w *world) ends(t *testing.T, out <-chan string) string {
	t.Helper()
	w.proc.exit()
	if st, err := w.Wait(t.Context(), w.task.ID); err != nil || st.State != Ended {
		t.Fatalf("%+v, %v", st, err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	return whole(t, out)
}

func TestK8LogBehindTheAttach(t *testing.T) {
	w, engine, out := interrupted(t, "first\n")
	w.proc.print(stdout, "while nobody was attached\n")
	engine.onAttach = func() { w.proc.print(stdout, "right after the attach\n") }
	engine.hold = 2
	got, err := w.Resume(t.Context(), w.task, "", true, engine)
	if err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	w.proc.print(stdout, "last\n")
	if got, want := w.ends(t, out), w.proc.log[stdout].String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestK8UnfinishedLine(t *testing.T) {
	w, engine, out := interrupted(t, "welcome\nlogin: ")
	w.proc.print(stdout, "b")
	engine.onAttach = func() { w.proc.print(stdout, "ob\nhello\n") }
	if got, err := w.Resume(t.Context(), w.task, "", true, engine); err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	if got, want := w.ends(t, out), "welcome\nlogin: bob\nhello\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Nothing tells equal lines apart but their number.
func TestK8EqualLines(t *testing.T) {
	const tick = "tick\n"
	for name, c := range map[string]struct{ onAttach, onRead int }{
		"quiet": {0, 0}, "one in both": {1, 0}, "five in both": {5, 0}, "newer than the log": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, engine, out := interrupted(t, strings.Repeat(tick, 20))
			w.proc.print(stdout, strings.Repeat(tick, 3))
			engine.onAttach = func() { w.proc.print(stdout, strings.Repeat(tick, c.onAttach)) }
			engine.onRead = func() { w.proc.print(stdout, strings.Repeat(tick, c.onRead)) }
			if got, err := w.Resume(t.Context(), w.task, "", true, engine); err != nil || got.Lost != 0 {
				t.Fatalf("lost %d, %v", got.Lost, err)
			}
			w.proc.print(stdout, strings.Repeat(tick, 2))
			got, want := strings.Count(w.ends(t, out), tick), 25+c.onAttach+c.onRead
			// Of places that fit as well the shortest counts: rather twice than not at all.
			if got < want || got > want+c.onAttach/2 {
				t.Errorf("%d lines, want %d", got, want)
			}
		})
	}
}

// A stream that has said nothing on the fresh attach may still be behind much
// of the other.
func TestK8OneStreamDrownsTheOther(t *testing.T) {
	w, engine, out := interrupted(t, "first\n")
	line := strings.Repeat("e", 8191) + "\n"
	printed := make(chan struct{})
	engine.onAttach = func() {
		go func() {
			defer close(printed)
			for range 22 { // less than the connection holds, more than a sample
				w.proc.print(stderr, line)
			}
			w.proc.print(stdout, "drowned\n")
		}()
	}
	if got, err := w.Resume(t.Context(), w.task, "", true, engine); err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	testenv.Await(t, "the end of what is printed", printed)
	if got, want := w.ends(t, out), "first\ndrowned\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestK8LogLargerThanTheSpool(t *testing.T) {
	proc := &process{}
	proc.log[stdout].WriteString(strings.Repeat("0123456789abcde\n", 10000))
	b := backlog{dir: t.TempDir(), limit: 100_000, from: proc}
	defer b.close()
	b.pos[stdout] = Position{Delivered: 16, Tail: []byte("0123456789abcde\n")}
	must(t, b.read(t.Context(), nil))
	gaps, files := b.gaps()
	g := gaps[stdout]
	if len(files) != 1 || g.Lost == 0 || g.Lost+g.Length != 160_000-16 || g.Length > b.limit || b.lost() != g.Lost ||
		g.Note != fmt.Sprintf("[wardyn] %d bytes lost while the driver was down\n", g.Lost) {
		t.Fatalf("%+v, %d files", g, len(files))
	}
	kept := make([]byte, g.Length)
	if _, err := files[0].ReadAt(kept, g.Offset); err != nil || !bytes.HasSuffix(proc.log[stdout].Bytes(), kept) {
		t.Errorf("what is kept is not the log's end: %v", err)
	}
	if left, _ := os.ReadDir(b.dir); len(left) != 0 {
		t.Errorf("left in the spool folder: %v", left)
	}
}

// TestK8PluginKilledInTheMiddle: the process that handed the connection over
// dies by SIGKILL; nothing is lost, nothing comes twice, no log ends.
func TestK8PluginKilledInTheMiddle(t *testing.T) {
	const lines = 200_000
	w := newWorld(t)
	out, errs := collect(t, w.task.Stdout), collect(t, w.task.Stderr)
	plugin, said := w.plugin(t)
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		for i := 1; i <= lines; i++ {
			for s := range streams {
				w.proc.print(s, fmt.Sprintf("%s %d\n", s, i))
			}
		}
	}()
	follows(t, said)
	before := peer(t, w.Socket)
	must(t, syscall.Kill(-plugin.Process.Pid, syscall.SIGKILL)) // and all that is not in a session of its own
	plugin.Wait()
	if got, err := w.Resume(t.Context(), w.task, "", true, w.proc); err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	if after := peer(t, w.Socket); after != before {
		t.Errorf("keeper %d is gone, %d serves now", before, after)
	}
	testenv.Await(t, "the end of what is printed", printed)
	w.proc.exit()
	if st, err := w.Wait(t.Context(), w.task.ID); err != nil || st.State != Ended {
		t.Fatalf("%+v, %v", st, err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	for s, text := range [streams]string{whole(t, out), whole(t, errs)} {
		if text != w.proc.log[s].String() {
			t.Errorf("%s: %d bytes, want %d", stream(s), len(text), w.proc.log[s].Len())
		}
	}
}

// plugin starts a process of its own that hands the task's output to the keeper.
func (w *world) plugin(t *testing.T) (*exec.Cmd, io.Reader) {
	t.Helper()
	o, err := w.proc.AttachOutput(t.Context(), "")
	must(t, err)
	conn, err := o.Conn.(*net.UnixConn).File()
	must(t, err)
	must(t, o.Conn.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "plugin-process", w.Socket, w.task.Stdout, w.task.Stderr, w.task.Position)
	cmd.ExtraFiles = []*os.File{conn}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	conn.Close()
	return cmd, said
}

// follows waits until the keeper has what the plugin process handed over.
func follows(t *testing.T, said io.Reader) {
	t.Helper()
	if b, err := io.ReadAll(io.LimitReader(said, 9)); err != nil || string(b) != "following" {
		t.Fatalf("the plugin says %q, %v", b, err)
	}
}

// pluginProcess hands its descriptor 3 to the keeper and waits to be killed.
func pluginProcess(args []string) error {
	f := os.NewFile(3, "attach")
	conn, err := net.FileConn(f)
	if err != nil {
		return err
	}
	f.Close()
	c := clientOf(args[0])
	task := Task{ID: "t", Stdout: args[1], Stderr: args[2], Position: args[3]}
	if err := c.Sink(task).Follow(context.Background(), "", runner.OutputStream{Conn: conn, Framed: true}); err != nil {
		return err
	}
	fmt.Print("following")
	select {}
}
