package keeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// The test binary is the keeper process, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keeper-process" {
		if err := Run(context.Background(), Options{Socket: os.Args[2], IdleExit: 300 * time.Millisecond}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "holder-process" {
		if err := Hold(context.Background(), Options{Socket: os.Args[2], IdleExit: 300 * time.Millisecond}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 6 && os.Args[1] == "plugin-process" {
		fmt.Fprintln(os.Stderr, pluginProcess(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// world is a keeper's surroundings: a client, two FIFOs, a main process.
type world struct {
	*Client
	task Task
	proc *process
}

func newWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "keep") // short: a socket's path is bounded
	must(t, err)
	w := &world{proc: &process{}}
	sock := filepath.Join(dir, "k.sock")
	w.Client = clientOf(sock)
	w.task = Task{ID: "t", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"), Position: filepath.Join(dir, "pos")}
	must(t, unix.Mkfifo(w.task.Stdout, 0o600))
	must(t, unix.Mkfifo(w.task.Stderr, 0o600))
	t.Cleanup(func() {
		must(t, w.Finish(context.Background(), w.task, 0))
		w.Close()
		left := leftBy(dir)
		for range 200 { // idle, the keeper ends by itself: its lock goes last
			if len(left) == 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
			left = leftBy(dir)
		}
		if len(left) > 0 {
			t.Errorf("left behind: %s", left)
		}
		os.RemoveAll(dir)
	})
	return w
}

// clientOf is a client whose keeper and holder are this test binary.
func clientOf(sock string) *Client {
	return &Client{
		Socket: sock, Command: []string{os.Args[0], "keeper-process", sock},
		Holder: []string{os.Args[0], "holder-process", HolderSocket(sock)}, Log: slog.New(slog.DiscardHandler),
	}
}

// leftBy names what a keeper left beside the FIFOs, which are the client's.
func leftBy(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n := e.Name(); n != "out" && n != "err" {
			names = append(names, n)
		}
	}
	return names
}

// process stands in for a main process on an engine: what it prints goes to
// its log and, framed, to whoever is attached.
type process struct {
	mu   sync.Mutex
	log  [streams]bytes.Buffer
	conn net.Conn

	since    time.Time // see runner.LogDater
	sinceErr error
}

func (p *process) print(s stream, text string) {
	p.mu.Lock()
	p.log[s].WriteString(text)
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return
	}
	frame := make([]byte, frameHeader, frameHeader+len(text))
	frame[0] = byte(s + 1)
	binary.BigEndian.PutUint32(frame[4:], uint32(len(text)))
	conn.Write(append(frame, text...)) // an attacher that is gone is no concern of ours
}

func (p *process) AttachOutput(context.Context, string) (runner.OutputStream, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return runner.OutputStream{}, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			return runner.OutputStream{}, err
		}
		f.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn = conns[0]
	return runner.OutputStream{Conn: conns[1], Framed: true}, nil
}

func (p *process) ReadLog(_ context.Context, _, name string) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := stdout
	if name == "stderr" {
		s = stderr
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(p.log[s].Bytes()))), nil
}

func (p *process) LogStart(context.Context, string, string) (time.Time, error) {
	return p.since, p.sinceErr
}

func (p *process) exit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Close()
}

func (w *world) follow(t *testing.T) {
	t.Helper()
	o, err := w.proc.AttachOutput(t.Context(), "")
	must(t, err)
	must(t, w.Sink(w.task).Follow(t.Context(), "", o))
}

// delivered waits until so many bytes of stdout are.
func (w *world) delivered(t *testing.T, n int64) {
	t.Helper()
	for {
		pos, err := ReadPosition(w.task.Position)
		if err == nil && pos[stdout].Delivered == n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("delivered %d bytes, want %d", pos[stdout].Delivered, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// collect reads a FIFO to its end, as a log collector does.
func collect(t *testing.T, path string) <-chan string {
	t.Helper()
	out := make(chan string, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			out <- err.Error()
			return
		}
		defer f.Close()
		b, _ := io.ReadAll(f)
		out <- string(b)
	}()
	return out
}

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
	if got := <-out; got != "one\nno newline at the end" {
		t.Errorf("stdout %q", got)
	}
	if got := <-errs; got != "two\n" {
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
	if got := <-out; got != "early and late" {
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
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the process is still blocked after Finish")
	}
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
	if got := <-out; !strings.HasPrefix(got, "line 0\n") || !strings.HasSuffix(got, "line 49\n") {
		t.Errorf("got %q", got)
	}
}

// One keeper a socket, however many ask for one at once.
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
}

// TestQuitAfterAKill: a keeper that was killed leaves its socket and its lock
// behind; nobody waits for it.
func TestQuitAfterAKill(t *testing.T) {
	w := newWorld(t)
	w.follow(t)
	kill(t, w.Socket)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, w.Finish(ctx, w.task, 0))
	must(t, w.Quit(ctx))
	for _, path := range []string{w.Socket, w.Socket + ".lock"} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// peer is the process that serves a socket.
func peer(t *testing.T, socket string) int32 {
	c, err := net.Dial("unixpacket", socket)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0
	}
	var cred *unix.Ucred
	raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		t.Error(err)
		return 0
	}
	return cred.Pid
}

func TestK8KeeperKilledInTheMiddle(t *testing.T) {
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive=%v", alive), func(t *testing.T) { killKeeper(t, alive) })
	}
}

func killKeeper(t *testing.T, alive bool) {
	const lines = 200_000
	w := newWorld(t)
	out, errs := collectAll(t, w.task.Stdout), collectAll(t, w.task.Stderr)
	w.follow(t)
	var wg sync.WaitGroup
	for s := range streams {
		wg.Go(func() {
			for i := 1; i <= lines; i++ {
				w.proc.print(s, fmt.Sprintf("%s %d\n", s, i))
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	kill(t, w.Socket)
	if _, err := w.Wait(t.Context(), "t"); !errors.Is(err, ErrGone) {
		t.Fatalf("Wait with the keeper dead: %v", err)
	}
	if !alive {
		wg.Wait()
		w.proc.exit()
	}
	got, err := w.Resume(t.Context(), w.task, "", alive, w.proc)
	if err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	wg.Wait()
	if alive {
		w.proc.exit()
	}
	if st, err := w.Wait(t.Context(), "t"); err != nil || st.State != Ended {
		t.Fatalf("%+v, %v", st, err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	exact(t, "stdout", out.text(), lines, 1)
	exact(t, "stderr", errs.text(), lines, 1)
}

// The death of the keeper alone ends no log: the holder has the FIFOs too.
func TestK8LogSurvivesTheKeeper(t *testing.T) {
	w := newWorld(t)
	out := collect(t, w.task.Stdout) // ends at the first end of file, as logmon does
	collect(t, w.task.Stderr)
	w.follow(t)
	var want strings.Builder
	for i := range 300 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		w.proc.print(stdout, line)
		if i == 100 {
			kill(t, w.Socket)
			if _, err := w.Resume(t.Context(), w.task, "", true, w.proc); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.proc.exit()
	if _, err := w.Wait(t.Context(), w.task.ID); err != nil {
		t.Fatal(err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := <-out; got != want.String() {
		t.Errorf("got %d bytes, want %d:\n%s", len(got), want.Len(), got)
	}
}

// An attach that ended with its engine: what that had logged besides is read,
// whether the process is still there when the engine is back, or not.
func TestK8AttachEndsTooEarly(t *testing.T) {
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive=%v", alive), func(t *testing.T) { attachEnds(t, alive) })
	}
}

func attachEnds(t *testing.T, alive bool) {
	w := newWorld(t)
	out := collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	w.follow(t)
	want := "before the engine went away\n"
	w.proc.print(stdout, want)
	w.proc.exit()
	if st, err := w.Wait(t.Context(), "t"); err != nil || st.State != Ended {
		t.Fatalf("%+v, %v", st, err)
	}
	w.proc.mu.Lock()
	w.proc.log[stdout].WriteString("while nobody was attached\n")
	w.proc.mu.Unlock()
	want += "while nobody was attached\n"
	for range 2 { // once more changes nothing
		got, err := w.Resume(t.Context(), w.task, "", alive, w.proc)
		if got.Lost != 0 || err != nil || got.Whole == alive {
			t.Fatalf("%+v, %v", got, err)
		}
		if alive {
			break
		}
		if st, err := w.Wait(t.Context(), "t"); err != nil || st.State != Ended {
			t.Fatalf("%+v, %v", st, err)
		}
	}
	if alive {
		w.proc.print(stdout, "and afterwards\n")
		want += "and afterwards\n"
		w.proc.exit()
	}
	if _, err := w.Wait(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := <-out; got != want {
		t.Errorf("got %q, want %q", got, want)
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
	if got := <-out; got != "before\nafter\n" {
		t.Errorf("got %q", got)
	}
}

func TestK8LossIsSaidInTheLog(t *testing.T) {
	const lost = "[wardyn] an unknown number of bytes lost while the driver was down"
	t.Run("dated", func(t *testing.T) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
		lossIsSaid(t, at, nil, lost+"; what follows was printed from 2026-01-02T03:04:05Z on\nnew output\n")
	})
	t.Run("not dated", func(t *testing.T) { lossIsSaid(t, time.Time{}, errors.New("no"), lost+"\nnew output\n") })
}

func lossIsSaid(t *testing.T, since time.Time, sinceErr error, want string) {
	w := newWorld(t)
	w.proc.since, w.proc.sinceErr = since, sinceErr
	out := collectAll(t, w.task.Stdout)
	collectAll(t, w.task.Stderr)
	w.follow(t)
	w.proc.print(stdout, strings.Repeat("old\n", 4096))
	w.delivered(t, 4*4096)
	kill(t, w.Socket)
	w.proc.mu.Lock()
	w.proc.log[stdout].Reset() // rotated away, with more than anybody saw
	w.proc.log[stdout].WriteString("new output\n")
	w.proc.mu.Unlock()
	w.proc.exit()
	if got, err := w.Resume(t.Context(), w.task, "", false, w.proc); err != nil || got.Lost == 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	if _, err := w.Wait(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := out.text(); !strings.HasSuffix(got, "old\n"+want) {
		t.Errorf("end of the log: %q", got[max(0, len(got)-120):])
	}
}

func TestK8PositionSurvivesAHalfWrittenSlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos")
	p, err := openPositions(path)
	must(t, err)
	p.advance(stdout, []byte("abc"))
	p.advance(stdout, bytes.Repeat([]byte("0123456789abcdef"), 400))
	p.advance(stdout, []byte("xyz"))
	want := p.state[stdout]
	// The slot that would be written next is torn in the middle.
	torn := slot(p.mem, stdout, p.seq[stdout]+1)
	binary.LittleEndian.PutUint64(torn[offSeq:], p.seq[stdout]+1)
	must(t, p.close())
	got, err := ReadPosition(path)
	must(t, err)
	if got[stdout].Delivered != want.Delivered || !bytes.Equal(got[stdout].Tail, want.Tail) || len(want.Tail) != tailSize {
		t.Errorf("read %d bytes, tail %d; want %d, %d", got[stdout].Delivered, len(got[stdout].Tail), want.Delivered, len(want.Tail))
	}
	if got[stderr].Delivered != 0 {
		t.Errorf("stderr %+v", got[stderr])
	}
}

// gathered is what a collector that never sees an end has read; a killed
// keeper closes the FIFO, and logmon would not come back by itself, so the
// reader here opens both ends.
type gathered struct {
	mu sync.Mutex
	b  bytes.Buffer
	f  *os.File
}

func collectAll(t *testing.T, path string) *gathered {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	g := &gathered{f: f}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			g.mu.Lock()
			g.b.Write(buf[:n])
			g.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { f.Close() })
	return g
}

// text waits until nothing more comes.
func (g *gathered) text() string {
	last := -1
	for {
		g.mu.Lock()
		n := g.b.Len()
		s := g.b.String()
		g.mu.Unlock()
		if n == last {
			return s
		}
		last = n
		time.Sleep(200 * time.Millisecond)
	}
}

// exact checks that every line is there in order; at most one chunk of bytes a
// kill may have come twice.
func exact(t *testing.T, name, text string, lines, kills int) {
	t.Helper()
	want, again := 1, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == fmt.Sprintf("%s %d", name, want) {
			want++
			continue
		}
		// A repeated chunk begins anywhere in a line.
		again += len(line) + 1
		var n int
		if i := strings.LastIndexByte(line, ' '); i >= 0 {
			fmt.Sscan(line[i+1:], &n)
		}
		if n > want {
			t.Fatalf("%s: %q where %d was due", name, line, want)
		}
	}
	if want != lines+1 {
		t.Errorf("%s: ends after line %d of %d", name, want-1, lines)
	}
	if again > kills*(chunkSize+64) {
		t.Errorf("%s: %d bytes came twice, more than a chunk a kill", name, again)
	}
}

// kill ends the keeper at socket with SIGKILL.
func kill(t *testing.T, socket string) { killProcess(t, "keeper-process", socket) }

func killProcess(t *testing.T, role, socket string) {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", role+" "+socket).Output()
	must(t, err)
	for pid := range strings.FieldsSeq(string(out)) {
		var n int
		fmt.Sscan(pid, &n)
		must(t, syscall.Kill(n, syscall.SIGKILL))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
