package plugin

import (
	"sync"
	"time"
)

// summaryAfter is how often what was not told one by one is told in one.
const summaryAfter = 10 * time.Minute

// rationed tells the first few events of a kind one by one and sums up the
// rest now and then.
type rationed struct {
	tell  func(message string, about ...string)
	after func(time.Duration, func()) (stop func() bool)
	loud  int
	sum   func(n int, last string) string

	mu    sync.Mutex
	told  int
	quiet int    // since the last summary
	last  string // what the latest of them was about
	stop  func() bool
}

func newRationed(loud int, tell func(string, ...string), sum func(n int, last string) string) *rationed {
	return &rationed{
		tell: tell, loud: loud, sum: sum,
		after: func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
	}
}

// say tells a message, or counts it.
func (r *rationed) say(subject, message string, about ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told < r.loud {
		r.told++
		r.tell(message, about...)
		return
	}
	r.quiet++
	r.last = subject
	if r.stop == nil {
		r.stop = r.after(summaryAfter, r.summarise)
	}
}

// summarise tells how many there were since the last time.
func (r *rationed) summarise() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
	if r.quiet == 0 {
		return
	}
	r.tell(r.sum(r.quiet, r.last))
	r.quiet = 0
}
