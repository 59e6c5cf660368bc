package plugin

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
)

const (
	// unreadEvery paces the looks at whether a task's log is read.
	unreadEvery = 2 * time.Second
	// unreadLooks is how many in a row find that nobody reads.
	unreadLooks = 3
)

// letGoUnread lets go of the output of a task whose stop does not come to its
// end, when its log files are full and nobody reads them. Some engines hold a
// sandbox's end back, and every answer about it, until its output has been taken
// off them. It begins after the task's own time to end, and ends with ctx.
func (p *Plugin) letGoUnread(ctx context.Context, b *Backend, t *task, after time.Duration) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return
	}
	var last keeper.Status
	for looks := 0; looks < unreadLooks; {
		s, err := b.Outputs.Status(ctx, t.output.ID)
		switch {
		case err != nil, s.Delivered != last.Delivered, !pipeFull(t.config.GetStdoutPath()) && !pipeFull(t.config.GetStderrPath()):
			looks = 0
		default:
			looks++
		}
		last = s
		select {
		case <-time.After(unreadEvery):
		case <-ctx.Done():
			return
		}
	}
	p.events.emit(t.config, "Nobody reads the task's log files, and its stop waits for that: what it still had to say is dropped")
	if err := b.Outputs.Finish(ctx, t.output, 0); err != nil {
		p.taskLog(t).Warn("the output of a task that is being stopped is still held", "error", err)
	}
}

// pipeFull reports whether somebody has a named pipe open for reading and no
// more can be written to it.
func pipeFull(path string) bool {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(ready, 0)
	return err == nil && n == 0
}
