// Package audit delivers decision records: one JSON line each on the local
// output, and each posted to the control plane until it is acknowledged. What
// cannot be kept is counted and reported as a gap, never dropped in silence.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Version of the record's flow section.
const Version = 1

// ErrRejected wraps the answer to a record that the control plane will never
// take; it is counted as lost and not sent again.
var ErrRejected = errors.New("audit: record rejected")

// Post delivers encoded records, one a line, and returns nil once all of them
// are acknowledged.
type Post func(ctx context.Context, records []byte) error

// Options make a Log.
type Options struct {
	RunID  uuid.UUID
	Out    io.Writer // one line per record; nil for none
	Post   Post      // nil for none
	Buffer int       // records kept while they cannot be posted; 0 means 1024
	Batch  int       // records in one post; 0 means 1
	Mask   *Mask
	Logger *slog.Logger
	// Retry is the first pause after a failed post; it doubles up to 5 s. 0
	// means 100 ms.
	Retry time.Duration
}

// Log takes records in and delivers them in order.
type Log struct {
	o    Options
	wake chan struct{}
	done chan struct{}
	stop context.CancelFunc

	mu      sync.Mutex
	seq     uint64
	queue   [][]byte // waiting to be posted
	lines   [][]byte // waiting to be printed
	dropped uint64   // lost so far
	told    uint64   // of those, acknowledged as a gap
	closed  bool
}

// New starts a log. It runs until Close.
func New(ctx context.Context, o Options) *Log {
	if o.Buffer <= 0 {
		o.Buffer = 1024
	}
	o.Batch = max(o.Batch, 1)
	if o.Retry <= 0 {
		o.Retry = 100 * time.Millisecond
	}
	if o.Mask == nil {
		o.Mask = &Mask{}
	}
	ctx, stop := context.WithCancel(ctx)
	l := &Log{o: o, wake: make(chan struct{}, 1), done: make(chan struct{}), stop: stop}
	go l.run(ctx)
	return l
}

// Record numbers, masks and queues one record.
func (l *Log) Record(d egress.DecisionLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.seq++
	if d.Flow == nil {
		d.Flow = &egress.FlowDetail{Kind: "decision"}
	}
	d.Flow.Version, d.Flow.Seq = Version, l.seq
	b, err := l.encode(d)
	if err != nil {
		l.dropped++
		l.o.Logger.Error("decision record lost", "error", err)
		return
	}
	if l.o.Post != nil {
		if len(l.queue) >= l.o.Buffer {
			l.dropped++
		} else {
			l.queue = append(l.queue, b)
		}
	}
	if l.o.Out != nil && len(l.lines) < l.o.Buffer {
		l.lines = append(l.lines, b)
	}
	l.kick()
}

func (l *Log) encode(d egress.DecisionLog) ([]byte, error) {
	b, err := appendRecord(make([]byte, 0, 640), d)
	if err != nil {
		return nil, err
	}
	return l.o.Mask.Bytes(b), nil
}

func (l *Log) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close takes no more records, delivers what is queued until ctx ends, and
// returns how many records could not be delivered.
func (l *Log) Close(ctx context.Context) (lost int) {
	l.mu.Lock()
	l.closed = true
	l.kick()
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	l.stop()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) + int(l.dropped-l.told)
}

// run is the one goroutine that prints and posts.
func (l *Log) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		l.print()
		d, closed := l.next()
		switch {
		case d.body != nil:
			l.deliver(ctx, d)
		case closed:
			l.print()
			return
		default:
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
		}
	}
	l.print()
}

// delivery is what one post carries: records off the queue, or the report of a
// gap.
type delivery struct {
	body    []byte
	records int
	gap     uint64
}

// print writes all waiting lines in one go; only this goroutine writes.
func (l *Log) print() {
	l.mu.Lock()
	lines := l.lines
	l.lines = nil
	l.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	var all []byte
	for _, b := range lines {
		all = append(append(all, b...), '\n')
	}
	if _, err := l.o.Out.Write(all); err != nil {
		l.o.Logger.Warn("decision lines not printed", "lines", len(lines), "error", err)
	}
}

// next returns what to post: a gap that was not reported yet goes last, when
// everything that was kept is through.
func (l *Log) next() (d delivery, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		d.records = l.fitting()
		d.body = bytes.Join(l.queue[:d.records], []byte("\n"))
		return d, l.closed
	}
	if l.o.Post != nil && l.dropped > l.told {
		d.gap = l.dropped - l.told
		if b, err := l.encode(l.gapRecord(d.gap)); err == nil {
			d.body = b
		}
	}
	return d, l.closed
}

// maxPost bounds the bytes of one post of several records.
const maxPost = 256 << 10

// fitting is how many records of the queue go into one post; l.mu is held.
func (l *Log) fitting() int {
	n, size := 1, len(l.queue[0])
	for n < min(len(l.queue), l.o.Batch) {
		if size += len(l.queue[n]) + 1; size > maxPost {
			break
		}
		n++
	}
	return n
}

func (l *Log) gapRecord(n uint64) egress.DecisionLog {
	l.seq++
	return egress.DecisionLog{
		Request:    egress.Request{RunID: l.o.RunID, Time: time.Now().UTC()},
		Decision:   egress.Deny,
		RuleSource: fmt.Sprintf("egress.decisions.dropped:%d", n),
		Cause:      fmt.Sprintf("%d decision records were lost because they could not be delivered in time", n),
		Flow:       &egress.FlowDetail{Version: Version, Seq: l.seq, Kind: "gap"},
	}
}

// deliver posts until it is acknowledged, rejected or ctx ends.
func (l *Log) deliver(ctx context.Context, d delivery) {
	for wait := l.o.Retry; ; wait = min(wait*2, 5*time.Second) {
		err := l.o.Post(ctx, d.body)
		if err == nil || errors.Is(err, ErrRejected) {
			l.settle(d, err)
			return
		}
		l.o.Logger.Debug("decision records not acknowledged", "error", err)
		select {
		case <-time.After(wait):
			l.print()
		case <-ctx.Done():
			return
		}
	}
}

// settle takes what was posted off the queue. The count of reported losses
// advances only when the report itself was taken.
func (l *Log) settle(d delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.gap > 0 {
		l.told += d.gap
		if err != nil { // a control plane that rejects the report will not take it later
			l.o.Logger.Error("report of lost decision records rejected", "lost", d.gap, "error", err)
		}
		return
	}
	clear(l.queue[:d.records])
	if l.queue = l.queue[d.records:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if err != nil {
		l.dropped += uint64(d.records)
		l.o.Logger.Error("decision records rejected", "records", d.records, "error", err)
	}
}
