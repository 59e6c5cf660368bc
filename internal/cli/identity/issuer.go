package identity

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// Issuer holds the current tokens of a group's tasks.
type Issuer struct {
	workload Workload
	signer   *signer

	mu    sync.Mutex
	held  []*held
	begun map[string]Place // of the tasks that have started
}

// held is one identity of a task and its current token.
type held struct {
	task  string
	id    jobfile.Identity
	token string
	ends  time.Time // zero when it never does
}

// New makes a key and signs the first token of every identity of the tasks.
func New(w Workload, tasks []jobfile.Task) (*Issuer, error) {
	s, err := newSigner()
	if err != nil {
		return nil, err
	}
	i := &Issuer{workload: w, signer: s, begun: map[string]Place{}}
	for _, t := range tasks {
		for _, id := range t.Identities {
			h := &held{task: t.Name, id: id}
			if err := i.issue(h, time.Now()); err != nil {
				return nil, err
			}
			i.held = append(i.held, h)
		}
	}
	return i, nil
}

// KeySet is the public key that verifies the tokens, as a JSON Web Key Set.
func (i *Issuer) KeySet() ([]byte, error) { return i.signer.keySet() }

// issue replaces a token by one from now on.
func (i *Issuer) issue(h *held, now time.Time) error {
	token, err := i.signer.token(i.workload.claim(h.task, h.id, now, uuid.NewString()))
	if err != nil {
		return fmt.Errorf("task %q: identity %q: %w", h.task, h.id.Name, err)
	}
	h.token, h.ends = token, time.Time{}
	if h.id.TTL > 0 {
		h.ends = now.Add(h.id.TTL)
	}
	return nil
}

// Begin writes the files of a task that is about to start, and has renewals
// write them from now on.
func (i *Issuer) Begin(task string, p Place) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun[task] = p
	for _, h := range i.held {
		if h.task != task {
			continue
		}
		if err := p.deliver(h); err != nil {
			return err
		}
	}
	return nil
}

// deliver writes a token's file, if it has one.
func (p Place) deliver(h *held) error {
	if h.id.File == "" {
		return nil
	}
	if err := p.write(h.id.File, h.token); err != nil {
		return fmt.Errorf("%s: identity %q: write the token to %s: %w", h.id.Pos, h.id.Name, h.id.File, err)
	}
	return nil
}

// Env is what a task that starts now has of it in its environment.
func (i *Issuer) Env(task string) map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	env := map[string]string{}
	for _, h := range i.held {
		if h.task == task && h.id.Env {
			env[h.id.Variable()] = h.token
		}
	}
	return env
}
