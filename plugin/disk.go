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

// diskOwner is somebody whose disk use is held to the task's limit.
type diskOwner struct {
	name string                               // as the subject of a sentence
	used func(context.Context) (int64, error) // MiB; with an error what could be measured
	end  func(text string)                    // what becomes of it over the limit
}

// keepDisk measures what a task has on the node's disks for as long as it
// lives, and ends it where that is too much.
func (p *Plugin) keepDisk(b *Backend, t *task, every time.Duration) {
	reader, ok := b.Runner.(runner.DiskReader)
	if !ok {
		return
	}
	p.watchDisk(t.ctx, t, every, diskOwner{
		name: "The task",
		used: func(ctx context.Context) (int64, error) { return diskUse(ctx, reader, t) },
		end:  func(text string) { p.endForDisk(b, t, text) },
	})
}

// watchDisk measures until ctx or the task is over: above the limit that is an
// event, above a fifth more the end, unless the operator only wants to know.
// What cannot be measured whole counts as far as it could be, and is an event too.
func (p *Plugin) watchDisk(ctx context.Context, t *task, every time.Duration, o diskOwner) {
	limit := t.state.DiskMiB
	if limit <= 0 {
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
		case <-ctx.Done():
			return
		}
		used, err := o.used(ctx)
		if err != nil && ctx.Err() == nil && time.Since(unmeasured) >= diskAgain {
			unmeasured = time.Now()
			p.taskLog(t).Warn("disk use could not be measured whole", "error", err)
			p.events.emit(t.config, "What the task has on disk could not be measured whole: "+err.Error())
		}
		if used <= limit {
			continue
		}
		text := overDisk(o.name, used, limit)
		if p.endsForDisk(used, limit) {
			o.end(text)
			return
		}
		if time.Since(told) >= diskAgain {
			told = time.Now()
			if host, _ := p.options(); !host.Disk.WarnOnly {
				text += fmt.Sprintf("; it is ended above %d MiB", limit+limit/5)
			}
			p.events.emit(t.config, text, "disk_mib", fmt.Sprint(used))
		}
	}
}

// endsForDisk: so much is the end of whose it is.
func (p *Plugin) endsForDisk(used, limit int64) bool {
	host, _ := p.options()
	return limit > 0 && used > limit+limit/5 && !host.Disk.WarnOnly
}

func overDisk(name string, used, limit int64) string {
	return fmt.Sprintf("%s has %d MiB on disk, and its limit is %d MiB", name, used, limit)
}

// diskOptions are what an author and an operator can change about it.
const diskOptions = " (storage_opt.size, plugin options max_disk and disk_enforce)"

// endForDisk ends a task that fills the disk.
func (p *Plugin) endForDisk(b *Backend, t *task, text string) {
	why := text + diskOptions
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
