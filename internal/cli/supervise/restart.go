package supervise

import (
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// restarter applies one task's restart policy. It is for one goroutine.
type restarter struct {
	policy jobfile.Restart
	// onSuccess restarts a task that ended well, too.
	onSuccess bool

	began time.Time // of the current interval
	count int       // of ends in the current interval
}

func newRestarter(t jobfile.Task, batch bool) *restarter {
	r := &restarter{policy: t.Restart, onSuccess: !batch, began: time.Now()}
	if l := t.Lifecycle; l != nil {
		r.onSuccess = l.Sidecar && l.Hook != "poststop"
	}
	return r
}

// next is what is to be done after a task has ended.
type next struct {
	restart bool
	wait    time.Duration // before the restart
	failed  bool          // the task ends as failed
	why     string
}

// decide judges an end. Recoverable is false for a start that would fail again.
func (r *restarter) decide(success, recoverable bool) next {
	if success && !r.onSuccess {
		return next{why: "the task ended well"}
	}
	if !recoverable {
		return next{failed: true, why: "the error is permanent, so it is not started again"}
	}
	if now := time.Now(); now.Sub(r.began) > r.policy.Interval {
		r.began, r.count = now, 0
	}
	r.count++
	switch {
	case r.policy.Mode == "fail" && r.policy.Attempts == 0:
		return next{failed: true, why: "the restart policy allows no attempts"}
	case r.count <= r.policy.Attempts:
		return next{restart: true, wait: r.policy.Delay, why: fmt.Sprintf("attempt %d of %d within %s", r.count, r.policy.Attempts, r.policy.Interval)}
	case r.policy.Mode == "fail":
		return next{failed: true, why: fmt.Sprintf("all %d attempts within %s are used up", r.policy.Attempts, r.policy.Interval)}
	default:
		left := r.policy.Interval - time.Since(r.began)
		return next{restart: true, wait: max(left, 0), why: "the attempts are used up; waiting for the next interval"}
	}
}
