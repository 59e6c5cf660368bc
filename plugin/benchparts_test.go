package plugin

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// fakeOutputs keeps what main processes print in memory.
type fakeOutputs struct {
	mu    sync.Mutex
	runs  map[string]*fakeOutput
	lost  int64         // reported by Resume
	begun int           // how often Resume was called
	again int           // how often a run was resumed
	stuck chan struct{} // when set, nothing is delivered until it is closed
	slow  chan struct{} // when set, Resume waits for it
	clung error         // when set, Finish lets go of nothing
}

type fakeOutput struct {
	mu   sync.Mutex
	text [3]strings.Builder // by stream number
	conn net.Conn
	// rec is the output's recording, and unrecorded why there is none.
	rec        *cast.Recorder
	unrecorded error
	done       chan struct{}
	died       chan struct{} // closed when what carries it has died
}

func newFakeOutputs() *fakeOutputs { return &fakeOutputs{runs: map[string]*fakeOutput{}} }

func (o *fakeOutputs) Sink(t keeper.Task) runner.OutputSink { return fakeSink{o, t} }

type fakeSink struct {
	to *fakeOutputs
	of keeper.Task
}

func (s fakeSink) Follow(_ context.Context, _ string, out runner.OutputStream) error {
	s.to.follow(s.of, out)
	return nil
}

func (o *fakeOutputs) follow(t keeper.Task, s runner.OutputStream) {
	id := t.ID
	out := &fakeOutput{conn: s.Conn, done: make(chan struct{}), died: make(chan struct{})}
	if t.Record != nil {
		out.rec, out.unrecorded = cast.Open(*t.Recording())
	}
	o.mu.Lock()
	if before := o.runs[id]; before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		for i := range out.text {
			out.text[i].WriteString(before.text[i].String())
		}
	}
	o.runs[id] = out
	o.mu.Unlock()
	go func() {
		defer close(out.done)
		defer s.Conn.Close()
		out.copy(s.Conn, s.Framed)
	}()
}

func (o *fakeOutput) copy(from io.Reader, framed bool) {
	head := make([]byte, 8)
	for {
		stream, n := byte(1), uint32(1)
		if framed {
			if _, err := io.ReadFull(from, head); err != nil {
				return
			}
			stream, n = head[0], binary.BigEndian.Uint32(head[4:])
		}
		buf := make([]byte, n)
		if _, err := io.ReadFull(from, buf); err != nil {
			return
		}
		o.mu.Lock()
		o.text[stream].Write(buf)
		o.rec.Output(int(stream)-1, buf)
		o.mu.Unlock()
	}
}

// die is the death of a keeper: what it carried stops.
func (o *fakeOutputs) die() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, out := range o.runs {
		out.conn.Close()
		close(out.died)
	}
}

func (o *fakeOutput) isDead() bool { return isClosed(o.died) }

func (o *fakeOutput) isDone() bool { return isClosed(o.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (o *fakeOutputs) Wait(ctx context.Context, id string) (keeper.Status, error) {
	o.mu.Lock()
	out, stuck := o.runs[id], o.stuck
	o.mu.Unlock()
	if out == nil {
		return keeper.Status{State: keeper.Unknown}, nil
	}
	done := out.done
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return keeper.Status{}, ctx.Err()
		}
	}
	if out.isDead() {
		return keeper.Status{}, keeper.ErrGone
	}
	select {
	case <-out.died:
		return keeper.Status{}, keeper.ErrGone
	case <-done:
		return keeper.Status{State: keeper.Ended}, nil
	case <-ctx.Done():
		return keeper.Status{}, ctx.Err()
	}
}

func (o *fakeOutputs) Resume(ctx context.Context, t keeper.Task, ref string, alive bool, from runner.OutputReader) (keeper.Resumed, error) {
	o.mu.Lock()
	slow := o.slow
	o.begun++
	o.mu.Unlock()
	if slow != nil {
		<-slow
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.again++
	if out := o.runs[t.ID]; out != nil && !out.isDead() {
		return keeper.Resumed{Lost: o.lost, Whole: !alive && out.isDone()}, nil // it is carried all the while
	}
	if !alive {
		out := &fakeOutput{done: make(chan struct{}), died: make(chan struct{})}
		for i, stream := range []string{"", "stdout", "stderr"} {
			if stream == "" {
				continue
			}
			r, err := from.ReadLog(ctx, ref, stream)
			if err != nil {
				return keeper.Resumed{}, err
			}
			b, _ := io.ReadAll(r)
			out.text[i].Write(b)
		}
		close(out.done)
		o.runs[t.ID] = out
		return keeper.Resumed{Lost: o.lost, Whole: !alive}, nil
	}
	s, err := from.AttachOutput(ctx, ref)
	if err != nil {
		return keeper.Resumed{}, err
	}
	o.mu.Unlock()
	o.follow(t, s)
	o.mu.Lock()
	return keeper.Resumed{Lost: o.lost}, nil
}

func (o *fakeOutputs) Status(_ context.Context, id string) (keeper.Status, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := keeper.Status{State: keeper.Following}
	if out := o.runs[id]; out != nil && out.unrecorded != nil {
		st.Unrecorded = out.unrecorded.Error()
	}
	return st, nil
}

func (o *fakeOutputs) HideRecorded(_ context.Context, id string, secrets ...string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.runs[id]; out != nil {
		out.rec.Hide(secrets...)
	}
	return nil
}

func (o *fakeOutputs) EndRecording(_ context.Context, t keeper.Task, how string) (keeper.Status, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.runs[t.ID]; out != nil {
		return keeper.Status{}, out.rec.Close(how)
	}
	return keeper.Status{}, nil
}

// resuming is how often Resume was called.
func (o *fakeOutputs) resuming() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

func (o *fakeOutputs) resumed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.again
}

func (o *fakeOutputs) Finish(_ context.Context, t keeper.Task, _ time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clung != nil {
		return o.clung
	}
	delete(o.runs, t.ID)
	return nil
}

func (o *fakeOutputs) known() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.runs))
}

// printed is what a task's main process has printed so far.
func (o *fakeOutputs) printed(id string) (stdout, stderr string) {
	o.mu.Lock()
	out := o.runs[RunID(TaskID(id)).String()]
	o.mu.Unlock()
	if out == nil {
		return "", ""
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.text[1].String(), out.text[2].String()
}
