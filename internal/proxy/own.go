package proxy

import (
	"context"
	"sync"
	"time"
)

// A node gains addresses while its sandboxes run: a bridge, a floating address,
// a lease. What is dialled must not be one of them, so the list is asked for
// again when something is about to be dialled.
const (
	ownWait    = 250 * time.Millisecond // what a dial waits for an answer
	ownTimeout = 2 * time.Second        // what the question takes at most
)

// ownList says how fresh the guard's list of the node's addresses is.
type ownList struct {
	mu      sync.Mutex
	asked   time.Time     // when the latest answer came, or did not come
	asking  chan struct{} // closed at the answer; nil while nobody asks
	missing bool          // the latest question was not answered
}

// learnOwn brings the guard's list up to date. Where the control plane does not
// answer, as while it is restarted, the list before serves.
func (s *Server) learnOwn(ctx context.Context) {
	if s.o.Own == nil {
		return
	}
	answered := s.askOwn()
	if answered == nil {
		return
	}
	patience := time.NewTimer(ownWait)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// askOwn asks unless the list is fresh, once at a time for all who want to know.
// It returns nil when there is nothing to wait for: a fresh list, or a control
// plane that did not answer last time.
func (s *Server) askOwn() <-chan struct{} {
	l := &s.own
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != nil && l.missing {
		return nil
	}
	if l.asking != nil {
		return l.asking
	}
	if !l.asked.IsZero() && time.Since(l.asked) < s.o.OwnTrust {
		return nil
	}
	answered := make(chan struct{})
	l.asking = answered
	go func() {
		defer close(answered)
		s.fetchOwn()
	}()
	if l.missing {
		return nil
	}
	return answered
}

// fetchOwn asks and hands the answer to the guard.
func (s *Server) fetchOwn() {
	ctx, cancel := context.WithTimeout(s.ctx, ownTimeout)
	defer cancel()
	list, err := s.o.Own(ctx)
	if err == nil {
		err = s.guard.SetOwn(list)
	}
	l := &s.own
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.missing {
		s.log.Warn("the node's own addresses are not known anew; the list before serves", "error", err)
	}
	l.asked, l.asking, l.missing = time.Now(), nil, err != nil
}
