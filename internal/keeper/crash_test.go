package keeper

import (
	"bytes"
	"encoding/binary"
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
	testenv.Eventually(t, "output is under way", func() bool {
		pos, err := ReadPosition(w.task.Position)
		return err == nil && pos[stdout].Delivered > 0 && pos[stderr].Delivered > 0
	})
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
	exact(t, "stdout", out.lines("stdout", lines), lines, 1)
	exact(t, "stderr", errs.lines("stderr", lines), lines, 1)
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
	if got := whole(t, out); got != want.String() {
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
	if got := whole(t, out); got != want {
		t.Errorf("got %q, want %q", got, want)
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
	if got := out.text(want); !strings.HasSuffix(got, "old\n"+want) {
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

// text waits until nothing more comes after what it is to end in, or for so
// long that this will not come.
func (g *gathered) text(end string) string {
	last := -1
	for late := time.Now().Add(testenv.Patience); ; time.Sleep(100 * time.Millisecond) {
		g.mu.Lock()
		n := g.b.Len()
		s := g.b.String()
		g.mu.Unlock()
		if n == last && strings.HasSuffix(s, end) || time.Now().After(late) {
			return s
		}
		last = n
	}
}

// lines is text that ends in so many lines of a name, see exact.
func (g *gathered) lines(name string, lines int) string {
	return g.text(fmt.Sprintf("%s %d\n", name, lines))
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
