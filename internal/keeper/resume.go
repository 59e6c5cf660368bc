package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// settle is how long an engine may take to write down what it has passed
	// on. Under load it was seen a second behind, so each time it was not
	// enough it is waited for longer.
	settle = 100 * time.Millisecond
	// arrive is how long what it has written down may take to arrive over a
	// fresh attach.
	arrive = 20 * time.Millisecond
	// joinTries and joinMost bound how often and how long the log is read again
	// because it does not have yet what the fresh attach has brought.
	joinTries = 10
	joinMost  = 20 * time.Second
)

// LostUnknown stands for a loss that cannot be counted.
const LostUnknown = -1

// Resume takes a task's output up again after a restart of this process, or
// when it ended or broke off too early. When the keeper still carries it there
// is nothing to do. Otherwise output is attached to anew (alive: there is more
// to come) or only read from the engine's log, cut where the dead keeper had
// got to, and handed to a keeper. lost is the number of bytes that neither has:
// 0, or LostUnknown when they cannot be counted.
func (c *Client) Resume(ctx context.Context, t Task, ref string, alive bool, from runner.OutputReader) (lost int64, err error) {
	c.hold(ctx, t)
	st, err := c.Status(ctx, t.ID)
	if err != nil || st.State == Following || st.State == Ended && !alive {
		return 0, err
	}
	if st.State == Broken {
		// What it noted is in the position file; the log files stay open.
		c.Log.Info("output broke off; reading the rest from the engine's log", "task", t.ID, "reason", st.Reason)
	}
	pos, err := ReadPosition(t.Position)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	b := backlog{dir: c.spoolDir(), limit: spoolLimit, from: from, ref: ref, pos: pos}
	defer b.close()
	var out offer
	if alive {
		// Attached first: what is printed from here on is on the attach
		// whatever happens to the log.
		o, err := from.AttachOutput(ctx, ref)
		if err != nil {
			return 0, fmt.Errorf("attach anew: %w", err)
		}
		live, err := newTap(o, c.spoolDir())
		if err != nil {
			return 0, err
		}
		defer live.close()
		if err := b.join(ctx, live); err != nil {
			return 0, err
		}
		if o, out.early, out.earlyLength, err = live.stop(); err != nil {
			return 0, fmt.Errorf("attach anew: %w", err)
		}
		out.live = &o
	} else if err := b.read(ctx, nil); err != nil {
		return 0, err
	}
	out.gaps, out.files = b.gaps()
	return b.lost(), c.follow(ctx, t, out)
}

// join reads the log until it has what the attach began with: then what was
// printed in between is in it for certain.
func (b *backlog) join(ctx context.Context, live *tap) error {
	begun := time.Now()
	for try := 1; ; try++ {
		if err := sleep(ctx, settle<<min(try-1, 3)); err != nil {
			return err
		}
		if err := b.read(ctx, live); err != nil {
			return err
		}
		if err := live.catchUp(ctx); err != nil {
			return err
		}
		joined, err := b.skip(live.seen())
		if err != nil || joined || try == joinTries || time.Since(begun) > joinMost {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
