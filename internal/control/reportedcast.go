package control

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

const (
	// maxReported bounds the recordings that one run reports of itself.
	maxReported = 16
	// reportedTogether bounds what they take, in recordings of full size.
	reportedTogether = 4
	// maxReportedEvent bounds an event that is kept; longer output is split.
	maxReportedEvent = 32 << 10
	// roomEvery is how much is kept, in bytes, until the room is looked at again.
	roomEvery = 256 << 10
	// lineRest is what an event has in a file beside its data.
	lineRest = 32
)

var (
	errGap    = errors.New("the piece before this one has not arrived; go on at offset")
	errNoRoom = errors.New("the recordings that this run made of itself have reached their bound")
)

// reportedCasts are the recordings that a sandbox is making of itself. The zero
// value is ready for use.
type reportedCasts struct {
	mu    sync.Mutex
	open  map[string]*reportedCast // by session
	begun int                      // also those that came at once and are not open
}

// reportedInto is where they are kept.
type reportedInto struct {
	owner   Run
	run     uuid.UUID
	secrets []string
}

func (into reportedInto) prefix() string { return into.run.String() + ".reported-" }

// most is how much they may take together, in bytes.
func (into reportedInto) most() int64 {
	return reportedTogether * cmp.Or(into.owner.Reported.Limit, cast.DefaultLimit)
}

// bounded is keep for as long as there is room. One look at the beginning would
// not do: those that are small then grow together.
func (into reportedInto) bounded(keep func(cast.Event) error) func(cast.Event) error {
	kept := roomEvery
	return func(e cast.Event) error {
		if kept >= roomEvery {
			kept = 0
			taken, err := cast.Size(into.owner.FilesDir, into.prefix())
			if err != nil {
				return err
			}
			if taken > into.most() {
				return errNoRoom
			}
		}
		kept += len(e.Data) + lineRest
		return keep(e)
	}
}

// reportedCast is one of them.
type reportedCast struct {
	rec   *cast.Recorder
	got   int64         // bytes of the recorder's file that were taken
	at    time.Duration // of the latest event, by the recorder's clock
	began time.Time
}

// take keeps a piece and says up to where the recording has been taken. After a
// restart of this process a recording goes on where its recorder says.
func (c *reportedCasts) take(into reportedInto, p piece, body io.Reader) (got int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.open[p.session]
	switch {
	case x == nil && c.begun >= maxReported:
		return 0, errNoRoom
	case x == nil && p.offset > 0:
		if x, err = c.begin(into, p.session, cast.Header{}); err != nil {
			return 0, err
		}
		x.got = p.offset
	case x != nil && p.offset > x.got:
		return x.got, errGap
	}
	if x == nil {
		n, err := cast.ReadBegun(body, func(h cast.Header) (err error) {
			x, err = c.begin(into, p.session, h)
			return err
		}, into.bounded(func(e cast.Event) error { return x.add(e) }))
		return c.took(p, x, n, err)
	}
	x.rec.Hide(into.secrets...)
	if _, err := io.CopyN(io.Discard, body, x.got-p.offset); err != nil && err != io.EOF {
		return x.got, err
	}
	n, err := cast.ReadMore(body, into.bounded(x.add))
	return c.took(p, x, n, err)
}

// took counts what was kept of a piece, also of one that broke off.
func (c *reportedCasts) took(p piece, x *reportedCast, n int64, err error) (int64, error) {
	if x == nil {
		return 0, err
	}
	x.got += n
	if p.whole {
		delete(c.open, p.session)
		err = errors.Join(err, x.rec.Close(""))
	}
	return x.got, err
}

// begin opens a recording, or goes on with one.
func (c *reportedCasts) begin(into reportedInto, session string, h cast.Header) (*reportedCast, error) {
	dir, rule := into.owner.FilesDir, *into.owner.Reported
	room, err := cast.Room(dir, into.prefix(), rule.Limit, into.most())
	if err == nil && room == 0 {
		err = errNoRoom
	}
	if err != nil {
		return nil, err
	}
	x := &reportedCast{}
	if h.Version != 0 {
		x.began = time.Now()
	}
	x.rec, err = cast.Open(cast.Options{
		Dir: dir, Name: into.prefix() + session, Title: "reported by the sandbox: " + rule.Title, Of: cast.OfMain, Made: cast.MadeSandbox,
		Terminal: true, Width: screen(h.Width), Height: screen(h.Height), Limit: room, Secrets: into.secrets,
		Now: x.now,
	})
	if err != nil {
		return nil, err
	}
	if c.open == nil {
		c.open = map[string]*reportedCast{}
	}
	c.open[session] = x
	c.begun++
	return x, nil
}

// now is the recorder's time. Of one that is gone on with, which is not known
// before its next event comes, it is the clock's.
func (x *reportedCast) now() time.Time {
	if x.began.IsZero() {
		return time.Now()
	}
	return x.began.Add(x.at)
}

// screen is a terminal's width or height, 0 for what is none.
func screen(n int) int {
	if n < 0 || n > 1<<16-1 {
		return 0
	}
	return n
}

// add keeps an event, with the time its recorder gave it.
func (x *reportedCast) add(e cast.Event) error {
	if x.at = max(x.at, e.At); x.began.IsZero() {
		x.began = time.Now().Add(-x.at)
	}
	switch e.Kind {
	case cast.KindOutput:
		return x.split(e.Data, func(b []byte) error { return x.rec.Output(0, b) })
	case cast.KindInput:
		return x.split(e.Data, x.rec.Input)
	case cast.KindResize:
		var w, h int
		if _, err := fmt.Sscanf(e.Data, "%dx%d", &w, &h); err != nil {
			return nil
		}
		return x.rec.Resize(screen(w), screen(h))
	case cast.KindMarker:
		return x.rec.Mark(e.Data[:min(len(e.Data), maxReportedMark)])
	}
	return nil
}

// maxReportedMark bounds a marker's text.
const maxReportedMark = 1 << 10

func (x *reportedCast) split(data string, keep func([]byte) error) error {
	for len(data) > 0 {
		n := min(len(data), maxReportedEvent)
		if err := keep([]byte(data[:n])); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (c *reportedCasts) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, x := range c.open {
		errs = append(errs, x.rec.Close(""))
	}
	c.open = nil
	return errors.Join(errs...)
}
