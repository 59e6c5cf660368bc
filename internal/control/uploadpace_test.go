package control

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// paced has the run's uploads counted by a clock of the test's.
func (r *reporter) paced(t *testing.T) *clock {
	t.Helper()
	c := &clock{}
	c.advance(time.Hour)
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.runs[r.id].uploads.now = c.now
	return c
}

// W14: a sandbox that sends one piece over and over, which takes no room on the
// disk, is told to wait, and what it sends after the wait is taken.
func TestW14UploadsAreHeldToARate(t *testing.T) {
	const kind = "application/x-asciicast; session=0123abcd; offset=0"
	t.Run("requests", func(t *testing.T) {
		r := newReporter(t)
		c := r.paced(t)
		for i := range uploadsAtOnce {
			if status, got := r.put(t, kind, castHead); status != 200 {
				t.Fatalf("%d: %d %s", i, status, got)
			}
		}
		status, got := r.put(t, kind, castHead)
		if status != 429 || !strings.Contains(got, "try again in") {
			t.Errorf("one more: %d %s", status, got)
		}
		c.advance(time.Second / uploadsPerSecond)
		if status, got := r.put(t, kind, castHead); status != 200 {
			t.Errorf("after a wait: %d %s", status, got)
		}
		if status, got := r.put(t, kind, castHead); status != 429 {
			t.Errorf("a second after that wait: %d %s", status, got)
		}
		if list, _ := r.kept(t); len(list) != 1 {
			t.Errorf("recordings: %v", list)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := newReporter(t)
		c := r.paced(t)
		r.b.mu.Lock()
		r.b.runs[r.id].uploads.bytes.ReserveN(c.now(), maxReportedUpload)
		r.b.mu.Unlock()
		for _, refused := range []string{"text/plain", kind} { // what is drained counts as well
			if status, got := r.put(t, refused, castHead); status == 429 {
				t.Errorf("%s, with nothing left but no debt: %d %s", refused, status, got)
			}
			if status, got := r.put(t, kind, castHead); status != 429 {
				t.Errorf("in debt after %s: %d %s", refused, status, got)
			}
			c.advance(time.Second) // more than that was
			r.b.mu.Lock()
			b := r.b.runs[r.id].uploads.bytes
			b.ReserveN(c.now(), int(b.TokensAt(c.now())))
			r.b.mu.Unlock()
		}
	})
}

// A body that breaks off is its sender's fault, and no line in the node's log.
func TestUploadThatBreaksOff(t *testing.T) {
	u := &upload{from: &brokenReader{}, pace: newUploadPace()}
	if _, err := cast.ReadMore(u, func(cast.Event) error { return nil }); err == nil || u.broke == nil {
		t.Errorf("%v, %v", err, u.broke)
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errGap }
