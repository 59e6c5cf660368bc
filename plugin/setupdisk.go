package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// errSetupDisk is why a setup that fills the disk is ended.
type errSetupDisk string

func (e errSetupDisk) Error() string { return string(e) + diskOptions }

// watchSetup looks after a setup's sandbox while its script runs, and at what it
// made before that is kept: a setup is held to its task's limit of disk use,
// measured every so often, and ended by end.
func (p *Plugin) watchSetup(b *Backend, t *task, s *driver.SetupSpec, every time.Duration, end context.CancelCauseFunc) {
	const name = "The setup"
	reader, measures := b.Runner.(runner.DiskReader)
	used := func(ctx context.Context, ref string) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, diskTimeout)
		defer cancel()
		n, err := reader.DiskUsage(ctx, ref)
		return n >> 20, err
	}
	s.Watch = func(ctx context.Context, ref string) {
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { p.keepSidecarOf(ctx, b, t, ref) })
		all.Go(func() { p.keepCPUsOf(ctx, b, t, ref, cpusEvery) })
		if measures {
			p.watchDisk(ctx, t, every, diskOwner{
				name: name,
				used: func(ctx context.Context) (int64, error) { return used(ctx, ref) },
				end:  func(text string) { end(errSetupDisk(text)) },
			})
		}
	}
	if !measures {
		return
	}
	s.Through = func(ctx context.Context, ref string) error {
		n, err := used(ctx, ref)
		if err != nil {
			p.taskLog(t).Warn("what a setup made could not be measured whole", "error", err)
		}
		if limit := t.state.DiskMiB; p.endsForDisk(n, limit) {
			return errSetupDisk(overDisk(name, n, limit))
		}
		return nil
	}
}
