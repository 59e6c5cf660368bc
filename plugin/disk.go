package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// diskEvery is how often a task with a limit is measured.
	diskEvery = 30 * time.Second
	// diskAgain is how often an event says that it is still over it.
	diskAgain = 10 * time.Minute
	// diskTimeout bounds one measurement: a tree can have any number of files.
	diskTimeout = 25 * time.Second
)

// keepDisk measures what a task has on the node's disks for as long as it
// lives: over its limit that is an event, over a fifth more it is ended, unless
// the operator only wants to know. What cannot be measured whole counts as far
// as it could be, and is an event too.
func (p *Plugin) keepDisk(b *Backend, t *task, every time.Duration) {
	limit := t.state.DiskMiB
	reader, ok := b.Runner.(runner.DiskReader)
	if limit <= 0 || !ok {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var told, unmeasured time.Time
	for {
		select {
		case <-tick.C:
		case <-t.done:
			return
		case <-t.ctx.Done():
			return
		}
		used, err := diskUse(t.ctx, reader, t)
		if err != nil && t.ctx.Err() == nil && time.Since(unmeasured) >= diskAgain {
			unmeasured = time.Now()
			p.taskLog(t).Warn("disk use could not be measured whole", "error", err)
			p.events.emit(t.config, "What the task has on disk could not be measured whole: "+err.Error())
		}
		if used <= limit {
			continue
		}
		host, _ := p.options()
		text := fmt.Sprintf("The task has %d MiB on disk, and its limit is %d MiB", used, limit)
		if used > limit+limit/5 && !host.Disk.WarnOnly {
			p.endForDisk(b, t, text)
			return
		}
		if time.Since(told) >= diskAgain {
			told = time.Now()
			if !host.Disk.WarnOnly {
				text += fmt.Sprintf("; it is ended above %d MiB", limit+limit/5)
			}
			p.events.emit(t.config, text, "disk_mib", fmt.Sprint(used))
		}
	}
}

// endForDisk ends a task that fills the disk.
func (p *Plugin) endForDisk(b *Backend, t *task, text string) {
	why := text + " (storage_opt.size, plugin options max_disk and disk_enforce)"
	t.blame(why)
	p.events.emit(t.config, "Sandbox stopped: "+why)
	ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
	defer cancel()
	if err := p.stopTask(ctx, b, t, "SIGKILL", 0); err != nil {
		p.taskLog(t).Error("a task over its disk limit could not be ended", "error", err)
	}
}

// diskUse is what a task has on disk, in MiB: what goes with its sandbox, its
// own folder and the allocation's but for the logs. With an error it
// is what could be measured.
func diskUse(ctx context.Context, r runner.DiskReader, t *task) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	total, err := r.DiskUsage(ctx, t.state.Ref)
	errs := []error{err}
	d := taskDirs(t.config)
	for _, part := range []struct{ dir, skip string }{{d.Local(), ""}, {d.Shared(), "logs"}} {
		n, err := taskpath.TreeSize(ctx, part.dir, part.skip)
		total += n
		errs = append(errs, err)
	}
	return total >> 20, errors.Join(errs...)
}
