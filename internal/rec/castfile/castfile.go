// Package castfile writes a recording into one file, from inside the sandbox
// that it is of. The file has a bound: what was recorded first is written as it
// comes, what comes after it is held back, and of that the latest is written at
// the end, behind a marker that says how much is missing.
package castfile

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

const (
	// endShare is the part of the bound that is kept for the end, and mostEnd
	// bounds it, since it is held in memory.
	endShare = 4
	mostEnd  = 1 << 20
	// longestEvent splits output into events that every reader takes.
	longestEvent = 32 << 10
	// input is the index of what was typed, behind the two outputs.
	input = 2
)

// File is a recording that is being made. Its methods may be called
// concurrently. What cannot be written is counted by Close.
type File struct {
	mu     sync.Mutex
	f      *os.File
	began  time.Time
	size   int64 // of f, whole lines
	limit  int64 // of the beginning
	text   [3]*cast.Text
	end    tail
	failed error // the first failure to write
}

// Create begins the recording of a terminal, or of two pipes, at path. limit
// bounds the file, in bytes.
func Create(path string, terminal bool, cols, rows int, limit int64) (*File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	x := &File{f: f, began: time.Now(), end: tail{most: min(limit/endShare, mostEnd)}}
	x.limit = limit - x.end.most
	for i := range x.text {
		x.text[i] = cast.NewText(nil, !terminal && i != input)
	}
	head := cast.Header{
		Version: 2, Width: cols, Height: rows, Timestamp: x.began.Unix(),
		Source: cast.Source{Of: cast.OfMain, Made: cast.MadeSandbox, Terminal: terminal, Start: x.began.UTC(), Part: 1},
	}
	if x.write(head.Line()); x.failed != nil {
		f.Close()
		return nil, x.failed
	}
	return x, nil
}

// Output records what one of the two outputs brought; a terminal's is 0.
func (x *File) Output(stream int, b []byte) { x.record(cast.KindOutput, stream, b) }

// Input records what was typed.
func (x *File) Input(b []byte) { x.record(cast.KindInput, input, b) }

func (x *File) record(kind string, stream int, b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(b) > 0 {
		n := min(len(b), longestEvent)
		x.add(kind, x.text[stream].Next(b[:n]))
		b = b[n:]
	}
}

// Resize records a new size of the terminal.
func (x *File) Resize(cols, rows int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(cast.KindResize, fmt.Sprintf("%dx%d", cols, rows))
}

// Close writes the end: what was held back, and how the command ended. Its
// error says that not all of it could be written.
func (x *File) Close(how string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, t := range x.text {
		kind := cast.KindOutput
		if i == input {
			kind = cast.KindInput
		}
		x.add(kind, t.End())
	}
	x.add(cast.KindMarker, how)
	if x.end.dropped > 0 {
		what := fmt.Sprintf("the recording is longer than its bound: %d bytes of it are missing here", x.end.dropped)
		x.write(cast.Event{At: x.end.list[0].at, Kind: cast.KindMarker, Data: what}.Line())
	}
	for _, e := range x.end.list {
		x.write(e.line)
	}
	if err := x.f.Close(); x.failed == nil {
		x.failed = err
	}
	return x.failed
}

func (x *File) add(kind, data string) {
	if data == "" {
		return
	}
	e := cast.Event{At: time.Since(x.began), Kind: kind, Data: data}
	line := e.Line()
	if len(x.end.list) == 0 && x.size+int64(len(line)) <= x.limit {
		x.write(line)
		return
	}
	x.end.add(held{e.At, line})
}

// write appends a whole line or nothing.
func (x *File) write(line []byte) {
	if _, err := x.f.WriteAt(line, x.size); err != nil {
		x.f.Truncate(x.size)
		if x.failed == nil {
			x.failed = err
		}
		return
	}
	x.size += int64(len(line))
}

// tail keeps the latest events within a bound.
type tail struct {
	most, size, dropped int64
	list                []held
}

// held is an event that is held back, as it will stand in the file.
type held struct {
	at   time.Duration
	line []byte
}

func (t *tail) add(e held) {
	t.list = append(t.list, e)
	t.size += int64(len(e.line))
	for t.size > t.most && len(t.list) > 1 {
		n := int64(len(t.list[0].line))
		t.list[0] = held{} // let go of its line
		t.list, t.size, t.dropped = t.list[1:], t.size-n, t.dropped+n
	}
}
