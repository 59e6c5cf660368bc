package keeper

import "context"

// guard is this process's write ends of a task's log FIFOs. Nothing is written
// to them.
type guard struct {
	fifo [streams]*fifo
	stop context.CancelFunc
}

// guard takes the write ends, once there is a reader. It does not wait.
func (c *Client) guard(t Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guards[t.ID] != nil {
		return
	}
	// It is held until the task is finished, not as long as a request.
	ctx, stop := context.WithCancel(context.Background())
	g := &guard{fifo: [streams]*fifo{{path: t.Stdout}, {path: t.Stderr}}, stop: stop}
	if c.guards == nil {
		c.guards = map[string]*guard{}
	}
	c.guards[t.ID] = g
	for _, f := range g.fifo {
		go f.hold(ctx) // what cannot be opened, the keeper complains of
	}
}

func (c *Client) unguard(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.guards[id]; g != nil {
		g.release()
		delete(c.guards, id)
	}
}

func (g *guard) release() {
	g.stop()
	for _, f := range g.fifo {
		f.close()
	}
}

// Close lets go of what this process holds. The keeper goes on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.guards {
		g.release()
		delete(c.guards, id)
	}
}
