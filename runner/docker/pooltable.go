package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
)

// slot is a sandbox's surroundings, made before anybody asked for them: a
// network, a sidecar on it that has no configuration yet, and a holder that
// keeps a network namespace with the agent's address.
type slot struct {
	ID        uuid.UUID    `json:"id"`
	NetworkID string       `json:"network_id"`
	Subnet    netip.Prefix `json:"subnet"`
	Sidecar   string       `json:"sidecar"` // container id
	Holder    string       `json:"holder"`  // container id
	Tools     string       `json:"tools"`   // id of the image both were made from
}

func (s slot) net() runNetwork {
	return runNetwork{ID: s.NetworkID, Plan: netpool.PlanOf(s.Subnet)}
}

// slotState is what a slot is good for. It stands in the name of the slot's
// file, so that every change of it is one rename: of two that want the same
// slot one finds it gone.
type slotState string

const (
	slotMaking slotState = ".new" // incomplete; without a maker it is to be removed
	slotWarm   slotState = ".warm"
	slotGiven  slotState = "@" // followed by the run it was given to
	slotOld    slotState = ".old"
)

// slotEntry is one slot as the table has it.
type slotEntry struct {
	ID    uuid.UUID
	State slotState
	Run   uuid.UUID // of a given one
}

func (e slotEntry) file() string {
	name := e.ID.String() + string(e.State)
	if e.State == slotGiven {
		name += e.Run.String()
	}
	return name
}

// slotTable keeps the slots of this installation in its data dir, one file
// each. It is safe for concurrent use, also by several processes.
type slotTable struct{ dir *datadir.Dir }

func (t slotTable) path(name string) string { return filepath.Join(t.dir.Path("slots"), name) }

// add enters a slot that is about to be made.
func (t slotTable) add(id uuid.UUID) error {
	if err := os.MkdirAll(t.dir.Path("slots"), 0o700); err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	return datadir.WriteFile(t.path(slotEntry{ID: id, State: slotMaking}.file()), nil)
}

// made stores what a finished slot consists of, and makes it available.
func (t slotTable) made(s slot) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	e := slotEntry{ID: s.ID, State: slotMaking}
	if err := datadir.WriteFile(t.path(e.file()), append(b, '\n')); err != nil {
		return err
	}
	_, _, err = t.move(e, slotWarm, uuid.Nil)
	return err
}

// move changes a slot's state; false when somebody else has changed it.
func (t slotTable) move(e slotEntry, to slotState, run uuid.UUID) (slotEntry, bool, error) {
	next := slotEntry{ID: e.ID, State: to, Run: run}
	err := os.Rename(t.path(e.file()), t.path(next.file()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, false, nil
	case err != nil:
		return e, false, fmt.Errorf("slot %s: %w", e.ID, err)
	}
	return next, true, nil
}

// load reads what a slot consists of.
func (t slotTable) load(e slotEntry) (slot, error) {
	var s slot
	b, err := os.ReadFile(t.path(e.file()))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("slot %s: %w", e.ID, err)
	}
	return s, nil
}

// drop forgets a slot, whatever its state.
func (t slotTable) drop(id uuid.UUID) error {
	all, err := t.list()
	errs := []error{err}
	for _, e := range all {
		if e.ID == id {
			errs = append(errs, os.Remove(t.path(e.file())))
		}
	}
	return errors.Join(errs...)
}

// list returns the slots in the states asked for; none asked for is all.
func (t slotTable) list(states ...slotState) ([]slotEntry, error) {
	files, err := os.ReadDir(t.dir.Path("slots"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("slots: %w", err)
	}
	var out []slotEntry
	for _, f := range files {
		if e, ok := parseSlot(f.Name()); ok && (len(states) == 0 || slices.Contains(states, e.State)) {
			out = append(out, e)
		}
	}
	return out, nil
}

// parseSlot reads a file's name; what is none of a slot's is false.
func parseSlot(name string) (slotEntry, bool) {
	const length = 36
	if len(name) < length {
		return slotEntry{}, false
	}
	id, err := uuid.Parse(name[:length])
	if err != nil {
		return slotEntry{}, false
	}
	switch s := slotState(name[length:]); s {
	case slotMaking, slotWarm, slotOld:
		return slotEntry{ID: id, State: s}, true
	}
	run, given := strings.CutPrefix(name[length:], string(slotGiven))
	to, err := uuid.Parse(run)
	return slotEntry{ID: id, State: slotGiven, Run: to}, given && err == nil
}

// of is the slot that was given to a run; false when it has none.
func (t slotTable) of(run uuid.UUID) (slotEntry, bool, error) {
	all, err := t.list(slotGiven)
	for _, e := range all {
		if e.Run == run {
			return e, true, nil
		}
	}
	return slotEntry{}, false, err
}
