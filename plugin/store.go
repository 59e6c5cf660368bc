package plugin

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// store holds the tasks this process looks after, by Nomad's id.
type store struct {
	mu    sync.Mutex
	tasks map[TaskID]*task
	// busy are ids that are being started or recovered: two calls for one id
	// must not both make a sandbox.
	busy map[TaskID]beginning
}

// beginning is a start or a recovery that is under way.
type beginning struct {
	cancel context.CancelFunc
	over   chan struct{}
}

func newStore() *store { return &store{tasks: map[TaskID]*task{}, busy: map[TaskID]beginning{}} }

func (s *store) get(id TaskID) (*task, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tasks[id]
	return t, ok
}

// begin claims an id for a start or a recovery that cancel ends early; release
// gives it back. known is the task of that id, if there is one: nothing is claimed
// then.
func (s *store) begin(id TaskID, cancel context.CancelFunc) (known *task, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tasks[id]; ok {
		return t, func() {}, nil
	}
	if _, busy := s.busy[id]; busy {
		return nil, nil, fmt.Errorf("task %s is being started: %w", id, errState)
	}
	over := make(chan struct{})
	s.busy[id] = beginning{cancel, over}
	return nil, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, id)
		close(over)
	}, nil
}

// beginning reports whether an id is being started or recovered.
func (s *store) beginning(id TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, busy := s.busy[id]
	return busy
}

// interrupt ends the start or recovery of an id, if one is under way, and waits
// until nothing more comes of it.
func (s *store) interrupt(ctx context.Context, id TaskID) error {
	s.mu.Lock()
	b, busy := s.busy[id]
	s.mu.Unlock()
	if !busy {
		return nil
	}
	b.cancel()
	select {
	case <-b.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempts are the session's tasks but for the one of an id. Without an allocation
// nothing tells whose they are.
func (s *store) attempts(session string, but TaskID) (out []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.tasks {
		if id != but && t.config.GetAllocId() != "" && SessionID(t.config) == session {
			out = append(out, t)
		}
	}
	return out
}

func (s *store) put(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t.id] = t
}

func (s *store) delete(id TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
}

// has reports whether a task of this process has the sandbox ref, or is about
// to have it.
func (s *store) has(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.state.Ref == ref {
			return true
		}
	}
	return false
}

// accounts reports whether a task of this process has the run, or is being
// started or recovered with it. The run of its setup is a task's, too.
func (s *store) accounts(run uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := func(own uuid.UUID) bool { return own == run || setupRun(own) == run }
	for id := range s.busy {
		if has(RunID(id)) {
			return true
		}
	}
	for _, t := range s.tasks {
		if has(t.state.Run) {
			return true
		}
	}
	return false
}
