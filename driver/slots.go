package driver

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// slots counts the sessions that occupy one. What the engine shows is the
// truth; a reservation covers the time until it shows there.
type slots struct {
	total int
	label string

	mu       sync.Mutex
	reserved map[string]bool // run ids, or refs of sessions being resumed
	sessions map[string]bool // session ids with a create under way
}

// count is the number of slots in use: running and frozen sessions of ours,
// and reservations that the engine does not show yet.
func (s *slots) count(all []EngineSandbox, reserved map[string]bool) int {
	n := len(reserved)
	for _, l := range all {
		_, ours := l.Labels[s.label]
		if ours && l.Running && !reserved[l.Labels[runLabel]] && !reserved[l.Ref] {
			n++
		}
	}
	return n
}

// used is count with the reservations of this moment.
func (s *slots) used(all []EngineSandbox) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(all, s.reserved)
}

// reserve takes a slot for key, which release gives back.
//
// The engine is asked without the lock, so that one that hangs holds nobody
// else up, and two creates still never take the same last slot: whoever
// reserved before us is counted by its reservation as it was then, whoever
// finished before that is in the engine's answer, and whoever comes later
// counts us.
func (s *slots) reserve(ctx context.Context, e Engine, key string) (release func(), err error) {
	s.mu.Lock()
	older := maps.Clone(s.reserved)
	delete(older, key)
	if s.reserved == nil {
		s.reserved = map[string]bool{}
	}
	s.reserved[key] = true
	s.mu.Unlock()
	release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reserved, key)
	}

	all, err := e.ListSandboxes(ctx)
	if err != nil {
		release()
		return nil, fmt.Errorf("capacity: %w", err)
	}
	if used := s.count(all, older); used >= s.total {
		release()
		return nil, noCapacity(used, s.total)
	}
	return release, nil
}

// claim refuses a second create for a session while one is under way: both
// would share a workspace, and the undo of one would take the other's.
func (s *slots) claim(sessionID string) (release func(), err error) {
	if sessionID == "" {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[sessionID] {
		return nil, fmt.Errorf("%w: it is being created", runner.ErrExists)
	}
	if s.sessions == nil {
		s.sessions = map[string]bool{}
	}
	s.sessions[sessionID] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, sessionID)
	}, nil
}
