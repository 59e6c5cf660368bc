package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// reholdPause is the pace at which a holder that cannot be had is tried again.
const reholdPause = time.Second

func (c *Client) holder() daemon {
	return daemon{"holder", HolderSocket(c.Socket), c.Holder, &c.starting}
}

// hold has a task's log FIFOs held, and sees to it that they stay so for as
// long as this process lives. Output does not depend on it: a holder that
// cannot be had is complained of, and tried again.
func (c *Client) hold(ctx context.Context, t Task) {
	c.mu.Lock()
	if c.held == nil {
		c.held = map[string]Task{}
	}
	c.held[t.ID] = t
	c.mu.Unlock()
	c.holdOne(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopWatch == nil {
		watch, stop := context.WithCancel(context.Background())
		c.stopWatch = stop
		go c.watchHolder(watch)
	}
}

// holdOne asks for one task, unless it was released meanwhile.
func (c *Client) holdOne(ctx context.Context, t Task) {
	c.order.Lock()
	defer c.order.Unlock()
	c.mu.Lock()
	_, wanted := c.held[t.ID]
	c.mu.Unlock()
	if !wanted {
		return
	}
	_, err := c.holder().ask(ctx, true, request{Op: "hold", ID: t.ID, Stdout: t.Stdout, Stderr: t.Stderr})
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("nothing holds a task's log files beside its keeper", "task", t.ID, "error", err)
	}
}

// watchHolder has everything held again by another holder when one dies.
func (c *Client) watchHolder(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := c.holder().ask(ctx, false, request{Op: "watch"})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrGone) {
			for _, t := range c.heldNow() {
				c.holdOne(ctx, t)
			}
		}
		if sleep(ctx, reholdPause) != nil {
			return
		}
	}
}

func (c *Client) heldNow() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.held))
}

// release lets go of a task's log FIFOs; one that is not held is nil.
func (c *Client) release(ctx context.Context, id string) error {
	c.order.Lock()
	defer c.order.Unlock()
	c.mu.Lock()
	delete(c.held, id)
	c.mu.Unlock()
	_, err := c.holder().ask(ctx, false, request{Op: "release", ID: id})
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Close ends what this process does. Keeper and holder go on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopWatch != nil {
		c.stopWatch()
		c.stopWatch = nil
	}
}
