package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// task is the output of one main process on its way.
type task struct {
	id   string
	log  *slog.Logger
	path string // of the position file
	fifo [streams]*fifo
	rec  *cast.Recorder // nil when nothing is recorded

	mu     sync.Mutex // guards what follows
	pos    *positions
	state  Status
	conn   net.Conn
	cancel context.CancelFunc
	ended  chan struct{} // closed when the pump has returned
}

func newTask(r request, log *slog.Logger) (*task, error) {
	pos, err := openPositions(r.Position)
	if err != nil {
		return nil, fmt.Errorf("position of %s: %w", r.ID, err)
	}
	t := &task{
		id: r.ID, log: log, path: r.Position, pos: pos,
		fifo: [streams]*fifo{{path: r.Stdout}, {path: r.Stderr}},
	}
	t.record(r.Record)
	return t, nil
}

// source is what a pump reads: the gap of each stream, then live output.
type source struct {
	gaps   [2]gap
	files  [2]*os.File // of gaps with a length
	conn   net.Conn    // nil when there is nothing live
	early  []byte
	file   *os.File // of what was read off the connection after early, or nil
	length int64    // of that
	framed bool
}

func (s *source) close() {
	for _, f := range append(s.files[:], s.file) {
		if f != nil {
			f.Close()
		}
	}
	if s.conn != nil {
		s.conn.Close()
	}
}

// follow starts to carry src, after ending a pump that may still run.
func (t *task) follow(src *source) {
	t.halt()
	// The pump outlives the request that started it.
	ctx, cancel := context.WithCancel(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel, t.conn, t.ended = cancel, src.conn, make(chan struct{})
	t.state.State, t.state.Reason = Following, ""
	for s := range streams {
		// The write end is held from now on, also by a stream that says nothing:
		// before the client takes its own, where a reader is there already.
		if ok, _ := t.fifo[s].open(); ok {
			continue
		}
		go func() {
			if err := t.fifo[s].hold(ctx); err != nil && ctx.Err() == nil {
				t.log.Warn("a log file cannot be opened", "task", t.id, "stream", s.String(), "error", err)
			}
		}()
	}
	go t.carry(ctx, src, t.ended)
}

// carry runs to the end of src and says how it ended.
func (t *task) carry(ctx context.Context, src *source, ended chan struct{}) {
	defer close(ended)
	defer src.close()
	err := t.deliverAll(ctx, src)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.State = Ended
	if err != nil {
		t.state.State, t.state.Reason = Broken, err.Error()
		if ctx.Err() == nil {
			t.log.Warn("output broke off", "task", t.id, "error", err)
		}
	}
}

func (t *task) deliverAll(ctx context.Context, src *source) error {
	for s := range streams {
		if err := t.fill(ctx, s, src.gaps[s], src.files[s]); err != nil {
			return err
		}
	}
	if src.conn == nil {
		return nil
	}
	skip := [streams]int64{src.gaps[stdout].Skip, src.gaps[stderr].Skip}
	live := io.MultiReader(bytes.NewReader(src.early), src.conn)
	if src.file != nil {
		live = io.MultiReader(bytes.NewReader(src.early), io.NewSectionReader(src.file, 0, src.length), src.conn)
	}
	return pump(live, src.framed, func(s stream, b []byte) error {
		if n := min(skip[s], int64(len(b))); n > 0 {
			skip[s] -= n
			b = b[n:]
		}
		return t.write(ctx, s, b)
	})
}

// fill delivers the gap of one stream.
func (t *task) fill(ctx context.Context, s stream, g gap, f *os.File) error {
	if g.Note != "" {
		t.recorded(t.rec.Mark(strings.TrimSpace(g.Note)))
		if err := t.fifo[s].write(ctx, []byte(g.Note), func([]byte) {}); err != nil {
			return err
		}
	}
	if g.Lost > 0 {
		t.mu.Lock()
		t.pos.lose(s, g.Lost)
		t.mu.Unlock()
	}
	if f == nil {
		return nil
	}
	part := io.NewSectionReader(f, g.Offset, g.Length)
	return pump(part, false, func(_ stream, b []byte) error { return t.write(ctx, s, b) })
}

func (t *task) write(ctx context.Context, s stream, b []byte) error {
	return t.fifo[s].write(ctx, b, func(done []byte) {
		t.recorded(t.rec.Output(int(s), done))
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.pos != nil {
			t.pos.advance(s, done)
			t.state.Delivered[s] = t.pos.state[s].Delivered
		}
	})
}

// halt ends a running pump and waits for it.
func (t *task) halt() {
	t.mu.Lock()
	cancel, conn, ended := t.cancel, t.conn, t.ended
	t.mu.Unlock()
	if ended == nil {
		return
	}
	cancel()
	if conn != nil {
		conn.Close()
	}
	// A pump that waits in a write to a full FIFO wakes only when it is given
	// a deadline in the past.
	for _, x := range t.fifo {
		x.interrupt()
	}
	<-ended
	for _, x := range t.fifo {
		x.resume()
	}
}

// wait blocks until the pump has ended.
func (t *task) wait(ctx context.Context) {
	t.mu.Lock()
	ended := t.ended
	t.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// finish lets the rest flow out for at most limit, then lets go of everything.
func (t *task) finish(limit time.Duration) Status {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t.wait(ctx)
	t.halt()
	t.recorded(t.rec.Close(""))
	s := t.status()
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.fifo[stdout].close(), t.fifo[stderr].close(), t.pos.close(), os.Remove(t.path)}
	t.pos = nil
	if err := errors.Join(errs...); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.log.Warn("letting go of an output", "task", t.id, "error", err)
	}
	return s
}

func (t *task) status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}
