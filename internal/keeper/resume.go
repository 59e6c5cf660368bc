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

// Resumed is what became of an output that was to be taken up again.
type Resumed struct {
	// Lost is the number of bytes that are gone for good, or LostUnknown.
	Lost int64
	// Whole: nothing more will come, and all of the engine's log is on its way.
	Whole bool
}

// Resume takes a task's output up again after a restart of this process, or
// when it ended or broke off too early. When the keeper still carries it there
// is nothing to do. Otherwise output is attached to anew (alive: there is more
// to come) or only read from the engine's log, cut where it had got to, and
// handed to a keeper.
func (c *Client) Resume(ctx context.Context, t Task, ref string, alive bool, from runner.OutputReader) (Resumed, error) {
	c.hold(ctx, t)
	st, err := c.Status(ctx, t.ID)
	if err != nil || st.State == Following {
		return Resumed{}, err
	}
	if st.State == Broken {
		// What it noted is in the position file; the log files stay open.
		c.Log.Info("output broke off; reading the rest from the engine's log", "task", t.ID, "reason", st.Reason)
	}
	pos, err := ReadPosition(t.Position)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Resumed{}, err
	}
	b := backlog{dir: c.spoolDir(), limit: spoolLimit, from: from, ref: ref, pos: pos}
	defer b.close()
	var out offer
	if alive {
		// Attached first: what is printed from here on is on the attach
		// whatever happens to the log.
		o, err := from.AttachOutput(ctx, ref)
		if err != nil {
			return Resumed{}, fmt.Errorf("attach anew: %w", err)
		}
		live, err := newTap(o, c.spoolDir())
		if err != nil {
			return Resumed{}, err
		}
		defer live.close()
		if err := b.join(ctx, live); err != nil {
			return Resumed{}, err
		}
		if o, out.early, out.earlyLength, err = live.stop(); err != nil {
			return Resumed{}, fmt.Errorf("attach anew: %w", err)
		}
		out.live = &o
	} else if err := b.read(ctx, nil); err != nil {
		return Resumed{}, err
	}
	out.gaps, out.files = b.gaps()
	if err := c.follow(ctx, t, out); err != nil {
		return Resumed{}, err
	}
	return Resumed{Lost: b.lost(), Whole: !alive}, nil
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
