package keeper

import (
	"context"
	"errors"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// record begins a recording of the task, or goes on with it. Output is carried
// whether it is recorded or not.
func (t *task) record(o *cast.Options) {
	if o == nil {
		return
	}
	rec, err := cast.Open(*o)
	t.rec = rec
	t.recorded(err)
}

// recorded notes an error of the recording, the first one.
func (t *task) recorded(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Unrecorded == "" {
		t.state.Unrecorded = err.Error()
		t.log.Warn("some output is not recorded", "task", t.id, "error", err)
	}
}

// Recording is the recording to make of a task's output, with its secrets as of
// now; nil is none.
func (t Task) Recording() *cast.Options {
	if t.Record == nil || t.Secrets == nil {
		return t.Record
	}
	o := *t.Record
	o.Secrets = t.Secrets()
	return &o
}

// HideRecorded hides secrets in a task's recording from now on.
func (c *Client) HideRecorded(ctx context.Context, id string, secrets ...string) error {
	_, err := c.keeper().ask(ctx, false, request{Op: "hide", ID: id, Secrets: secrets})
	if errors.Is(err, ErrGone) {
		return nil // whoever takes the task up again is given all of them
	}
	return err
}

// EndRecording ends the recording of a task whose output has ended, with how
// the task ended. When the keeper is gone it is ended here.
func (c *Client) EndRecording(ctx context.Context, t Task, how string) (Status, error) {
	if t.Record == nil {
		return Status{}, nil
	}
	r, err := c.keeper().ask(ctx, false, request{Op: "recorded", ID: t.ID, Ended: how})
	if err != nil && !errors.Is(err, ErrGone) || err == nil && r.Status.State != Unknown {
		return r.Status, err
	}
	rec, err := cast.Open(*t.Recording())
	if err != nil {
		return Status{}, err
	}
	return Status{State: Unknown}, rec.Close(how)
}
