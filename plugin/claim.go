package plugin

import (
	"context"
	"time"
)

const (
	// claimWait is how long a predecessor that is dying is waited for.
	claimWait = 3 * time.Second
	// orphanedAfter is how long this process has no client before it gives up
	// its claim: a client opens a stream that ended again at once.
	orphanedAfter = time.Second
	// successorEvery is how often a process without a client looks for another
	// that has taken over.
	successorEvery = 2 * time.Second
)

// Claim is what only one plugin on a node may have at a time: the data dir. A
// process whose agent died may live on with its tasks; it gives the claim up,
// so that the next agent's plugin can have them, and takes it again when its
// own comes back.
type Claim interface {
	// Take waits at most wait, and not longer than ctx, for another process to
	// give it up. Its error says who has it. One that this process has already is
	// nil.
	Take(ctx context.Context, wait time.Duration) error
	// Give gives it up; one that this process does not have is fine.
	Give()
}

// begin takes the claim and begins what goes with it. On an error this process
// does not have the claim.
func (b *Backend) begin(ctx context.Context) error {
	if b.Claim != nil {
		if err := b.Claim.Take(ctx, claimWait); err != nil {
			return err
		}
	}
	if b.Begin == nil {
		return nil
	}
	err := b.Begin()
	if err != nil && b.Claim != nil {
		b.Claim.Give()
	}
	return err
}

// clientCame and clientLeft count the streams that a client keeps open.
func (p *Plugin) clientCame() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients++
}

func (p *Plugin) clientLeft() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients--
	time.AfterFunc(orphanedAfter, p.giveUpIfOrphaned)
}

func (p *Plugin) giveUpIfOrphaned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients == 0 && p.built != nil && p.built.Claim != nil && !p.orphaned {
		p.built.Claim.Give()
		p.orphaned = true
		go p.awaitSuccessor()
	}
}

// awaitSuccessor ends this process when another has the claim: what it goes on
// with for its tasks would be done twice.
func (p *Plugin) awaitSuccessor() {
	tick := time.NewTicker(successorEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-p.life.Done():
			return
		}
		back, taken := p.succeeded()
		if back {
			return
		}
		if taken != nil {
			p.log.Warn("the agent of this process is gone and another plugin has taken over; it ends", "reason", taken)
			if p.opts.Superseded != nil {
				p.opts.Superseded()
			}
			return
		}
	}
}

// succeeded reports whether this process has a client again, and if not, who
// has the claim.
func (p *Plugin) succeeded() (back bool, taken error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.orphaned || p.clients > 0 {
		return true, nil
	}
	if err := p.built.Claim.Take(p.life, 0); err != nil {
		return false, err
	}
	p.built.Claim.Give()
	return false, nil
}

// reclaim needs mu. Only what a client asks for may lead here: what runs by
// itself asks unattended first.
func (p *Plugin) reclaim() error {
	if !p.orphaned {
		return nil
	}
	if err := p.built.begin(p.life); err != nil {
		return err
	}
	p.orphaned = false
	return nil
}

// unattended reports whether this process was left by its client.
func (p *Plugin) unattended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orphaned && p.clients == 0
}
