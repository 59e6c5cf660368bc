package keeper

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper/seam"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// spoolLimit bounds the part of one stream's log that is kept: beyond it
	// the oldest goes.
	spoolLimit = 256 << 20
	// windowMax bounds the end of a log that a fresh attach is looked for in.
	// It is more than a tap reads before, and an engine holds, until the task waits.
	windowMax = 8 << 20
)

// backlog is the engine's log of both streams, cut where delivery ended.
type backlog struct {
	dir   string // of the spool files
	limit int64
	from  runner.OutputReader
	ref   string
	pos   [streams]Position
	part  [streams]part
}

// part is the log of one stream.
type part struct {
	spool
	start    int64     // offset in the log of the first byte to deliver
	found    bool      // start follows on what was delivered
	received int64     // what the attach had brought before the log was read
	skip     int64     // bytes at the attach's beginning that the log has too
	before   int64     // size of the log when it was read before; -1 the first time
	since    time.Time // when the log's beginning was printed; zero when found or not known
}

// read reads both logs. With live it notes how much had come before each was.
func (b *backlog) read(ctx context.Context, live *tap) error {
	b.close()
	for s := range streams {
		p := &b.part[s]
		f, err := unlinked(b.dir)
		if err != nil {
			return err
		}
		before := p.size
		if p.file == nil {
			before = -1
		}
		*p = part{spool: spool{file: f, limit: b.limit}, before: before}
		if live != nil {
			p.received = live.received(s)
		}
		log, err := b.from.ReadLog(ctx, b.ref, s.String())
		if err != nil {
			return fmt.Errorf("read the engine's log: %w", err)
		}
		l, err := seam.Read(log, &p.spool, seam.Position(b.pos[s]))
		log.Close()
		if err != nil {
			return fmt.Errorf("read the engine's log: %w", err)
		}
		p.start, p.found = l.Start, l.Found
		if dater, ok := b.from.(runner.LogDater); ok && !p.found {
			// It only dates what is lost: without it the loss is told all the same.
			p.since, _ = dater.LogStart(ctx, b.ref, s.String())
		}
	}
	return nil
}

// skip finds, for each stream, how much of what the attach has brought is in
// the log too. It reports whether that is certain. It is not while the log does
// not have a line that the attach or even the delivered output has: it may lag
// behind, or the line be newer than what was read. Where the attach has brought
// no line to look for, the task may have fallen silent before it was opened,
// with much still on its way to the log: then the log must have stopped growing.
func (b *backlog) skip(seen [streams][]byte) (certain bool, err error) {
	certain = true
	for s := range streams {
		p := &b.part[s]
		end, err := p.end(p.start, windowMax)
		if err != nil {
			return false, fmt.Errorf("read the spooled log: %w", err)
		}
		p.skip = seam.Overlap(end, seen[s], p.received)
		line := bytes.IndexByte(seen[s], '\n') >= 0
		grown := p.size != p.before
		if line && p.skip == 0 || !line && grown || !p.found && grown && p.size < b.pos[s].Delivered {
			certain = false
		}
	}
	return certain, nil
}

// gaps says what the keeper has to deliver first, from which files.
func (b *backlog) gaps() (out [streams]gap, files []*os.File) {
	for s := range streams {
		p := &b.part[s]
		from := max(p.start, p.base)
		g := gap{Offset: from - p.base, Length: p.size - from, Skip: p.skip}
		switch lost := p.lost(); {
		case lost == LostUnknown:
			g.Note = "[wardyn] an unknown number of bytes lost while the driver was down" + p.goesOn() + "\n"
		case lost > 0:
			g.Lost = lost
			g.Note = fmt.Sprintf("[wardyn] %d bytes lost while the driver was down\n", lost)
		}
		if g.Length > 0 {
			files = append(files, p.file)
		}
		out[s] = g
	}
	return out, files
}

// lost is what neither stream will get.
func (b *backlog) lost() (sum int64) {
	for s := range streams {
		lost := b.part[s].lost()
		if lost == LostUnknown {
			return LostUnknown
		}
		sum += lost
	}
	return sum
}

// goesOn is what is known of a loss that nobody has counted.
func (p *part) goesOn() string {
	if p.since.IsZero() {
		return ""
	}
	return "; what follows was printed from " + p.since.UTC().Format(time.RFC3339) + " on"
}

func (p *part) lost() int64 {
	if !p.found {
		return LostUnknown
	}
	return max(0, p.base-p.start)
}

func (b *backlog) close() {
	for s := range streams {
		if f := b.part[s].file; f != nil {
			f.Close()
		}
	}
}

// spool keeps the end of what is written to it in an unlinked file.
type spool struct {
	file  *os.File
	limit int64
	base  int64 // offset of the file's first byte in what was written
	size  int64 // all that was written
}

// unlinked makes a file below dir that goes away with its last descriptor.
func unlinked(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".backlog-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *spool) Write(p []byte) (int, error) {
	if s.size-s.base+int64(len(p)) > s.limit {
		if err := s.file.Truncate(0); err != nil {
			return 0, err
		}
		s.base = s.size
	}
	n, err := s.file.WriteAt(p, s.size-s.base)
	s.size += int64(n)
	return n, err
}

// end reads what was written last: at most most bytes, and none before from.
func (s *spool) end(from, most int64) ([]byte, error) {
	from = max(from, s.base, s.size-most)
	b := make([]byte, s.size-from)
	n, err := s.file.ReadAt(b, from-s.base)
	if n == len(b) {
		err = nil
	}
	return b[:n], err
}
