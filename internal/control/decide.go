package control

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Listed is an approval and whose it is.
type Listed struct {
	Owner
	Approval
}

// Approvals are those of a known run's session, oldest first.
func (s *Server) Approvals(id uuid.UUID) []Approval {
	if r := s.known(id); r != nil {
		return r.approvals.all(id)
	}
	return nil
}

// AllApprovals are those of every run this process knows, oldest first.
func (s *Server) AllApprovals() []Listed {
	out := []Listed{}
	for _, id := range s.Runs() {
		r := s.known(id)
		if r == nil {
			continue
		}
		for _, a := range r.approvals.all(id) {
			out = append(out, Listed{r.ownedBy(), a})
		}
	}
	slices.SortStableFunc(out, func(a, b Listed) int { return a.RequestedAt.Compare(b.RequestedAt) })
	return out
}

// Decide rules on an approval of a run's session; ref is its id, at least four
// characters of its beginning, or HOST:PORT. What an approval let through ends
// within two seconds after it was taken back.
func (s *Server) Decide(id uuid.UUID, ref string, v Ruling) (Approval, error) {
	r := s.known(id)
	if r == nil {
		return Approval{}, fmt.Errorf("run %s: %w", id, ErrNoApproval)
	}
	if s.opts.External != nil {
		return Approval{}, errors.New("first uses are decided by the control plane (plugin option control_plane)")
	}
	if err := v.check(); err != nil {
		return Approval{}, err
	}
	a, err := r.approvals.decide(id, ref, v)
	if err != nil {
		return a, err
	}
	r.tellApproval(a)
	return a, nil
}

// DecideAny is Decide for whichever run has the approval. A ref that means
// those of several is an error.
func (s *Server) DecideAny(ref string, v Ruling) (Approval, error) {
	var found uuid.UUID
	for _, id := range s.Runs() {
		r := s.known(id)
		if r == nil {
			continue
		}
		switch has, err := r.approvals.has(ref); {
		case err != nil:
			return Approval{}, err
		case has && found != uuid.Nil:
			return Approval{}, fmt.Errorf("%q means approvals of several tasks; write the id", ref)
		case has:
			found = id
		}
	}
	if found == uuid.Nil {
		return Approval{}, fmt.Errorf("%q: %w", ref, ErrNoApproval)
	}
	return s.Decide(found, ref, v)
}

func (a *approvals) has(ref string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.find(ref)
	if errors.Is(err, ErrNoApproval) {
		return false, nil
	}
	return err == nil, err
}

// check refuses a ruling that says nothing.
func (v Ruling) check() error {
	switch {
	case v.To != egress.ApprovalApproved && v.To != egress.ApprovalDenied:
		return fmt.Errorf("an approval is approved or denied, not %q", v.To)
	case !slices.Contains([]Scope{"", ScopeSession, ScopeAttempt}, v.Scope):
		return fmt.Errorf("scope %q: want %s or %s", v.Scope, ScopeSession, ScopeAttempt)
	case v.For < 0:
		return errors.New("an approval holds for a positive time")
	case len(v.Note) > maxNote:
		return fmt.Errorf("the note has more than %d bytes", maxNote)
	}
	return nil
}

const maxNote = 500

func (s *Server) known(id uuid.UUID) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

func (r *run) ownedBy() Owner {
	r.keep.Lock()
	defer r.keep.Unlock()
	return r.owner.Owner
}

// Open reports whether an approval waits for somebody.
func (a Approval) Open() bool { return a.State == egress.ApprovalPending }
