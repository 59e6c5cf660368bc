package logmon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

func collector(t *testing.T, tee io.Writer) (*Collector, string) {
	t.Helper()
	dir := t.TempDir()
	c, err := New(Config{FIFO: filepath.Join(dir, ".web.stdout.fifo"), Dir: dir, Name: "web.stdout", Tee: tee})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, dir
}

func openWriter(t *testing.T, dir string) *os.File {
	t.Helper()
	w, err := os.OpenFile(filepath.Join(dir, ".web.stdout.fifo"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func wait(t *testing.T, c *Collector) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCollectsUntilTheLastWriterCloses(t *testing.T) {
	var tee testenv.Buffer
	c, dir := collector(t, &tee)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	first, second := openWriter(t, dir), openWriter(t, dir)
	fmt.Fprintln(first, "one")
	first.Close()
	fmt.Fprintln(second, "two")
	if err := c.Start(); err != nil { // goes on with the one under way
		t.Fatal(err)
	}
	second.Close()
	wait(t, c)
	if got := content(t, filepath.Join(dir, "web.stdout.0")); got != "one\ntwo\n" || tee.String() != got {
		t.Errorf("file %q, copy %q", got, tee.String())
	}
}

// TestEndsForGoodAtEOF: after the last writer nobody reads until the next task start.
func TestEndsForGoodAtEOF(t *testing.T) {
	c, dir := collector(t, nil)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	openWriter(t, dir).Close()
	wait(t, c)
	_, err := os.OpenFile(filepath.Join(dir, ".web.stdout.fifo"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if !errors.Is(err, unix.ENXIO) {
		t.Fatalf("somebody still reads: %v", err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := openWriter(t, dir)
	fmt.Fprintln(w, "again")
	w.Close()
	wait(t, c)
	if got := content(t, filepath.Join(dir, "web.stdout.0")); got != "again\n" {
		t.Errorf("after the next start: %q", got)
	}
}

func TestCloseWithoutAnyWriterAndUnderOne(t *testing.T) {
	c, dir := collector(t, nil)
	if err := c.Close(); err != nil {
		t.Fatal("before the first start:", err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal("before any writer:", err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := openWriter(t, dir)
	if _, err := w.WriteString("held open"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal("under a writer:", err)
	}
	if _, err := w.WriteString("x"); !errors.Is(err, unix.EPIPE) {
		t.Errorf("after Close a writer gets %v", err)
	}
}

// TestCloseTakesWhatIsThere: a client that ends loses nothing of what was
// written before, though the writers die with it.
func TestCloseTakesWhatIsThere(t *testing.T) {
	gate := make(chan struct{})
	c, dir := collector(t, &gated{gate: gate})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := openWriter(t, dir)
	fmt.Fprint(w, "a") // holds the collector up
	want := "a"
	for want == "a" || len(want) < 60<<10 {
		line := strings.Repeat("x", 1000) + "\n"
		fmt.Fprint(w, line)
		want += line
	}
	w.Close()
	time.AfterFunc(50*time.Millisecond, func() { close(gate) })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(dir, "web.stdout.0")); got != want {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
}

// gated holds its first writer up until the gate opens.
type gated struct {
	gate <-chan struct{}
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.gate
	return len(p), nil
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestABrokenCopyDoesNotHarmTheFiles(t *testing.T) {
	c, dir := collector(t, broken{})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := openWriter(t, dir)
	for range 1000 {
		fmt.Fprintln(w, "line")
	}
	w.Close()
	wait(t, c)
	if got := strings.Count(content(t, filepath.Join(dir, "web.stdout.0")), "line\n"); got != 1000 {
		t.Errorf("%d lines in the file", got)
	}
}

func TestFIFOModeAndKind(t *testing.T) {
	_, dir := collector(t, nil)
	info, err := os.Stat(filepath.Join(dir, ".web.stdout.fifo"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeNamedPipe|0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{FIFO: file, Dir: dir, Name: "x"}); err == nil {
		t.Error("a plain file was taken for a FIFO")
	}
}

func TestRotation(t *testing.T) {
	rows := []struct {
		name   string
		writes []string
		files  []string // number:content
	}{
		{"fits exactly", []string{"12345", "1234\n"}, []string{"0:123451234\n"}},
		{"one over", []string{"123456789\n", "x"}, []string{"0:123456789\n", "1:x"}},
		{"cut after a line", []string{"aaa\nbbb\nccc\nddd\n"}, []string{"0:aaa\nbbb\n", "1:ccc\nddd\n"}},
		{"long line", []string{strings.Repeat("x", 25)}, []string{"0:xxxxxxxxxx", "1:xxxxxxxxxx", "2:xxxxx"}},
		{"old ones go", []string{strings.Repeat("x", 41)}, []string{"2:xxxxxxxxxx", "3:xxxxxxxxxx", "4:x"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			dir := t.TempDir()
			out, err := openRotator(dir, "l", 3, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range r.writes {
				if n, err := out.Write([]byte(text)); err != nil || n != len(text) {
					t.Fatalf("wrote %d of %d: %v", n, len(text), err)
				}
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			if got := numbered(t, dir); !slices.Equal(got, r.files) {
				t.Errorf("got %q, want %q", got, r.files)
			}
		})
	}
}

func numbered(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "l.*"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimPrefix(filepath.Ext(n), ".")+":"+content(t, n))
	}
	return out
}

func TestRotationGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		out, err := openRotator(dir, "l", 3, 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte("1234567\n")); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// The second write finds 8 bytes in the newest file: 2 more fit, the rest goes on.
	if got, want := numbered(t, dir), []string{"0:1234567\n12", "1:34567\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
