package checks

import (
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// Status is how a check stands, in Consul's words.
type Status string

// The statuses there are. A check of Nomad's own services is pending until its
// first result, one of Consul's is critical.
const (
	Pending  Status = "pending"
	Passing  Status = "passing"
	Warning  Status = "warning"
	Critical Status = "critical"
)

// health counts a check's results into its status, as Consul does: it takes so
// many of a kind in a row, but for the first, which counts at once. It is for
// one goroutine.
type health struct {
	status                   Status
	passing, warn, critical  int // how many it takes
	successes, failuresInRow int
}

func newHealth(c jobfile.Check) *health {
	h := &health{
		status:  Status(c.InitialStatus),
		passing: c.SuccessBeforePassing, warn: c.FailuresBeforeWarning, critical: c.FailuresBeforeCritical,
	}
	switch {
	case c.Provider == "nomad":
		h.status = Pending
	case h.status == "":
		h.status = Critical
	}
	if h.warn == 0 {
		h.warn = h.critical
	}
	h.successes, h.failuresInRow = h.passing, h.critical
	return h
}

// take counts a result.
func (h *health) take(result Status) {
	if result != Critical {
		h.successes, h.failuresInRow = h.successes+1, 0
		if h.successes >= h.passing {
			h.status = result
		}
		return
	}
	h.successes, h.failuresInRow = 0, h.failuresInRow+1
	switch {
	case h.failuresInRow >= h.critical:
		h.status = Critical
	case h.failuresInRow >= h.warn:
		h.status = Warning
	}
}

// patience says when a check has been unwell for so long that its task is to be
// restarted: as long as the limit's number of results takes to come, and not
// before the grace time is over. It is for one goroutine.
type patience struct {
	from, unwell time.Time     // unwell is zero while it is well
	limit        time.Duration // after the first sight of it
	lenient      bool          // a warning is well enough
}

func newPatience(c jobfile.Check, now time.Time) *patience {
	return &patience{
		from:    now.Add(c.Restart.Grace),
		limit:   c.Interval * time.Duration(c.Restart.Limit-1),
		lenient: c.Restart.IgnoreWarnings,
	}
}

// over looks at the status at a time, and tells whether patience has come to its
// end.
func (p *patience) over(s Status, now time.Time) bool {
	switch {
	case s == Passing || s == Warning && p.lenient:
		p.unwell = time.Time{}
		return false
	case now.Before(p.from):
		return false
	case p.unwell.IsZero():
		p.unwell = now
	}
	return !now.Before(p.unwell.Add(p.limit))
}
