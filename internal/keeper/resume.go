package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper/seam"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// settle is how long an engine may take to write down what it has passed on.
const settle = 100 * time.Millisecond

// Resume takes a task's output up again after a restart of this process, or
// when it ended or broke off too early. When the keeper still carries it there
// is nothing to do. Otherwise output is attached to anew (alive: there is more
// to come) or only read from the engine's log, cut where the dead keeper had
// got to, and handed to a keeper. lost is the number of bytes that neither has:
// 0, or seam.Unknown when they cannot be counted.
func (c *Client) Resume(ctx context.Context, t Task, ref string, alive bool, from runner.OutputReader) (lost int64, err error) {
	c.guard(t)
	st, err := c.Status(ctx, t.ID)
	if err != nil || st.State == Following || st.State == Ended && !alive {
		return 0, err
	}
	if st.State == Broken {
		// What it noted is in the position file; the log files stay open.
		c.Log.Info("output broke off; reading the rest from the engine's log", "task", t.ID, "reason", st.Reason)
	}
	pos, err := ReadPosition(t.Position)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var live *liveTap
	if alive {
		o, err := from.AttachOutput(ctx, ref)
		if err != nil {
			return 0, fmt.Errorf("attach anew: %w", err)
		}
		live = tap(o)
		defer live.abandon()
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	b := backlog{dir: c.spoolDir(), from: from, ref: ref}
	defer b.close()
	for s := range streams {
		if err := b.cut(ctx, s, pos[s]); err != nil {
			return 0, err
		}
	}
	var o *runner.OutputStream
	if live != nil {
		out, seen, err := live.stop()
		if err != nil {
			return 0, fmt.Errorf("attach anew: %w", err)
		}
		b.skip(seen)
		o = &out
	}
	gaps, spool := b.gaps()
	return b.lost, c.follow(ctx, t, o, gaps, spool)
}

// backlog is the engine's log of both streams, cut at the position.
type backlog struct {
	dir  string
	from runner.OutputReader
	ref  string
	part [streams]part
	lost int64
}

// part is one stream's log, spooled to an unlinked file and mapped.
type part struct {
	file *os.File
	mem  []byte
	at   int // first byte to deliver
	skip int // bytes of live output that mem holds
	lost int64
}

// cut reads the log of one stream and finds where delivery goes on.
func (b *backlog) cut(ctx context.Context, s stream, pos Position) error {
	p := &b.part[s]
	if err := p.spool(ctx, b.dir, b.from, b.ref, s); err != nil {
		return err
	}
	p.at, p.lost = seam.Cut(pos.Delivered, pos.Tail, p.mem)
	if p.lost != 0 {
		b.lost = p.lost
	}
	return nil
}

func (p *part) spool(ctx context.Context, dir string, from runner.OutputReader, ref string, s stream) error {
	log, err := from.ReadLog(ctx, ref, s.String())
	if err != nil {
		return fmt.Errorf("read the engine's log: %w", err)
	}
	defer log.Close()
	f, err := os.CreateTemp(dir, ".backlog-*")
	if err != nil {
		return err
	}
	os.Remove(f.Name())
	p.file = f
	n, err := io.Copy(f, log)
	if err != nil {
		return fmt.Errorf("read the engine's log: %w", err)
	}
	if n == 0 {
		return nil
	}
	p.mem, err = unix.Mmap(int(f.Fd()), 0, int(n), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// skip finds, for each stream, how much of what the fresh attach has given is
// in the log already.
func (b *backlog) skip(seen [streams][]byte) {
	for s := range streams {
		p := &b.part[s]
		p.skip = seam.Skip(p.mem[p.at:], seen[s])
	}
}

// gaps says what the keeper has to deliver first.
func (b *backlog) gaps() (out [2]gap, spool []*os.File) {
	for s := range streams {
		p := &b.part[s]
		g := gap{Offset: int64(p.at), Length: int64(len(p.mem) - p.at), Skip: int64(p.skip)}
		switch {
		case p.lost > 0:
			g.Lost = p.lost
			g.Note = fmt.Sprintf("[wardyn] %d bytes lost while the driver was down\n", p.lost)
		case p.lost < 0:
			g.Note = "[wardyn] an unknown number of bytes lost while the driver was down\n"
		}
		if g.Length > 0 {
			spool = append(spool, p.file)
		}
		out[s] = g
	}
	return out, spool
}

func (b *backlog) close() {
	for s := range streams {
		p := &b.part[s]
		if p.mem != nil {
			unix.Munmap(p.mem)
		}
		if p.file != nil {
			p.file.Close()
		}
	}
}

// tapLimit bounds what is read off a fresh attach while the log is being read.
// Beyond it the task waits, as it does for any slow reader.
const tapLimit = 64 << 10

// liveTap reads a fresh attach while the log is read, so that the two can be
// joined.
type liveTap struct {
	o    runner.OutputStream
	raw  []byte // the reading goroutine's until done is closed
	err  error
	done chan struct{}
	kept bool
}

func tap(o runner.OutputStream) *liveTap {
	l := &liveTap{o: o, raw: append([]byte(nil), o.Early...), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		b := make([]byte, 4<<10)
		for len(l.raw) < tapLimit {
			n, err := o.Conn.Read(b)
			l.raw = append(l.raw, b[:n]...)
			if err != nil {
				l.err = err
				return
			}
		}
	}()
	return l
}

// stop ends the reading and returns the stream, with all that was read in its
// Early, and the payload of each of its streams so far.
func (l *liveTap) stop() (runner.OutputStream, [streams][]byte, error) {
	l.o.Conn.SetReadDeadline(time.Unix(1, 0))
	<-l.done
	if l.err != nil && !errors.Is(l.err, os.ErrDeadlineExceeded) && l.err != io.EOF {
		return runner.OutputStream{}, [streams][]byte{}, l.err
	}
	l.o.Conn.SetReadDeadline(time.Time{})
	l.o.Early = l.raw
	l.kept = true
	var seen [streams][]byte
	// The last frame may be cut short; its payload so far counts.
	_ = pump(bytes.NewReader(l.raw), l.o.Framed, func(s stream, b []byte) error {
		seen[s] = append(seen[s], b...)
		return nil
	})
	return l.o, seen, nil
}

// abandon closes the connection unless stop has given it away.
func (l *liveTap) abandon() {
	if !l.kept {
		l.o.Conn.Close()
	}
}
