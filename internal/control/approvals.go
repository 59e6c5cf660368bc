package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// approvalsName is the session's approvals among people's files, where the next
// attempt of the task finds it. What a client fetches for a job it unpacks as
// root, there too if the job says so; hence the seal.
const approvalsName = "approvals.json"

const (
	maxApprovals = 1024 // kept at once
	maxPending   = 64   // open at once
)

// Errors of Decide.
var (
	ErrNoApproval = errors.New("there is no such approval")
	ErrDecided    = errors.New("it is decided already")
)

// approvals are those of one session. The zero value holds none and keeps no
// file.
type approvals struct {
	mu   sync.Mutex
	dir  *os.Root // nil keeps no file
	seal seal
	list []Approval
}

// open reads what earlier attempts of the session left in dir.
func (a *approvals) open(dir string, s seal) error {
	if dir == "" {
		return nil
	}
	root, err := taskpath.OpenRecords(dir, true)
	if err != nil {
		return err
	}
	list, err := readApprovals(root, s)
	if err != nil {
		return errors.Join(err, root.Close())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir != nil {
		a.dir.Close()
	}
	a.dir, a.seal, a.list = root, s, list
	return nil
}

func (a *approvals) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := a.dir
	a.dir, a.list = nil, nil
	if dir == nil {
		return nil
	}
	return dir.Close()
}

// all are the approvals as they stand now.
func (a *approvals) all(run uuid.UUID) []Approval {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Approval, len(a.list))
	for i, x := range a.list {
		out[i] = x.at(time.Now(), run)
	}
	return out
}

// raise returns the approval of a host and port, and whether it is new. One
// that is open or decided stays; one that expired is raised anew.
func (a *approvals) raise(run uuid.UUID, host string, port int, mode types.FirstUseMode) (Approval, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, open := time.Now().UTC(), 0
	for i := len(a.list) - 1; i >= 0; i-- {
		x := a.list[i].at(now, run)
		if x.State == egress.ApprovalPending {
			open++
		}
		if x.Host == host && x.Port == port && x.State != egress.ApprovalExpired {
			return x, false, nil
		}
	}
	if open >= maxPending {
		return Approval{}, false, fmt.Errorf("%d approvals are open already", open)
	}
	x := Approval{ID: uuid.New(), RunID: run, Host: host, Port: port, Mode: mode, State: egress.ApprovalPending, RequestedAt: now}
	return x, true, a.replace(append(a.room(run), x))
}

// room is the list with room for one more: the oldest that is over makes it.
func (a *approvals) room(run uuid.UUID) []Approval {
	list := slices.Clone(a.list)
	if len(list) < maxApprovals {
		return list
	}
	over := slices.IndexFunc(list, func(x Approval) bool { return x.at(time.Now(), run).State == egress.ApprovalExpired })
	over = max(over, 0)
	return slices.Delete(list, over, over+1)
}

// replace installs a list once it is written.
func (a *approvals) replace(list []Approval) error {
	if a.dir != nil {
		sum, err := a.seal.of(list)
		if err != nil {
			return err
		}
		b, err := json.MarshalIndent(sealedApprovals{list, sum}, "", "  ")
		if err != nil {
			return err
		}
		if err := replaceFile(a.dir, approvalsName, append(clean.Visible(b), '\n')); err != nil {
			return err
		}
	}
	a.list = list
	return nil
}

// get is the approval of an id as it stands now.
func (a *approvals) get(run, id uuid.UUID) (Approval, bool) {
	for _, x := range a.all(run) {
		if x.ID == id {
			return x, true
		}
	}
	return Approval{}, false
}

// decide rules on the approval that ref names: its id, the beginning of it, or
// its host and port.
func (a *approvals) decide(run uuid.UUID, ref string, v Ruling) (Approval, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, err := a.find(ref)
	if err != nil {
		return Approval{}, err
	}
	now := time.Now().UTC()
	x := a.list[i].at(now, run)
	switch {
	case x.State == egress.ApprovalExpired:
		return x, fmt.Errorf("%w: it has expired; the next request raises it again", ErrDecided)
	case x.State == egress.ApprovalDenied:
		return x, fmt.Errorf("%w: it was denied, and that holds for the session", ErrDecided)
	}
	x = x.remember()
	x.Revoked = x.State == egress.ApprovalApproved && v.To == egress.ApprovalDenied
	x.State, x.DecidedAt, x.DecidedBy, x.Note = v.To, now, v.By, v.Note
	x.Scope, x.Until = "", time.Time{}
	if v.To == egress.ApprovalApproved {
		x.RunID, x.Scope = run, v.Scope
		if x.Scope == "" {
			x.Scope = ScopeSession
		}
		if v.For > 0 {
			x.Until = now.Add(v.For)
		}
	}
	list := slices.Clone(a.list)
	list[i] = x
	return x, a.replace(list)
}

// shortestRef is how much of an id names it.
const shortestRef = 4

// find is the index of the latest approval that ref names.
func (a *approvals) find(ref string) (int, error) {
	ref = strings.ToLower(strings.TrimSpace(ref))
	found := -1
	for i := len(a.list) - 1; i >= 0; i-- {
		x := a.list[i]
		byID := len(ref) >= shortestRef && strings.HasPrefix(x.ID.String(), ref)
		byName := ref == x.Host+":"+strconv.Itoa(x.Port) || ref == "["+x.Host+"]:"+strconv.Itoa(x.Port)
		switch {
		case byName:
			return i, nil
		case byID && found >= 0:
			return 0, fmt.Errorf("%q is the beginning of several approvals' ids; write more of it", ref)
		case byID:
			found = i
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("%q: %w", ref, ErrNoApproval)
	}
	return found, nil
}
