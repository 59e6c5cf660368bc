package control

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What a run may upload of its own recordings. The files have bounds of their
// own, but reading what is passed over costs the node's processor all the same,
// and a sandbox may send one piece as often as it likes. A recorder sends one
// piece a second.
const (
	uploadsPerSecond = 20
	uploadsAtOnce    = 64
	// uploadBytesPerSecond is more than a terminal prints. One request of full size
	// may go at once, and is waited off then.
	uploadBytesPerSecond = 4 << 20
)

// errTooFast says that a run uploads more than its share.
var errTooFast = errors.New("this run uploads recordings faster than they are taken")

// uploadPace holds the uploads of one run to a rate. It is safe for concurrent
// use.
type uploadPace struct {
	// turn is held while an upload is read: several at once would all begin
	// before the first is counted.
	turn     sync.Mutex
	requests *rate.Limiter
	bytes    *rate.Limiter // below zero after an upload that was larger than what was left
	now      func() time.Time
}

func newUploadPace() *uploadPace {
	return &uploadPace{
		requests: rate.NewLimiter(uploadsPerSecond, uploadsAtOnce),
		bytes:    rate.NewLimiter(uploadBytesPerSecond, maxReportedUpload), now: time.Now,
	}
}

// admit begins an upload; after is in how long the next is let through when
// this one is not. One that is admitted ends with leave.
func (p *uploadPace) admit() (after time.Duration, ok bool) {
	p.turn.Lock()
	now := p.now()
	if left := p.bytes.TokensAt(now); left < 0 {
		p.turn.Unlock()
		return time.Duration(-left / uploadBytesPerSecond * float64(time.Second)), false
	}
	if !p.requests.AllowN(now, 1) {
		p.turn.Unlock()
		return time.Second, false
	}
	return 0, true
}

func (p *uploadPace) leave() { p.turn.Unlock() }

// refuseTooFast answers an upload that is not admitted. Its body stays unread,
// so the connection ends.
func refuseTooFast(w http.ResponseWriter, after time.Duration) {
	seconds := int(after/time.Second) + 1
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", fmt.Sprint(seconds))
	refuse(w, http.StatusTooManyRequests, fmt.Sprintf("%v; try again in %d s", errTooFast, seconds))
}

// upload is the body of an upload that was admitted.
type upload struct {
	from io.Reader
	pace *uploadPace
	// broke is why the body ended early, which is its sender's doing.
	broke error
}

// Read counts what it reads.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if n > 0 {
		u.pace.bytes.ReserveN(u.pace.now(), n)
	}
	var large *http.MaxBytesError
	if err != nil && err != io.EOF && !errors.As(err, &large) {
		u.broke = err
	}
	return n, err
}
