package main

import (
	"context"
	"log/slog"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// controlChanges tells of changes in the folder of a control socket, so that a
// sidecar which was started before its socket exists need not look for it all
// the time. Several changes may come as one. Where the kernel cannot tell, or
// the control plane is no socket, nothing ever comes.
func controlChanges(ctx context.Context, control string, log *slog.Logger) <-chan struct{} {
	changes := make(chan struct{}, 1)
	socket, ok := strings.CutPrefix(control, "unix://")
	if !ok {
		return changes
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		log.Debug("changes of the control folder are not told", "error", err)
		return changes
	}
	events := os.NewFile(uintptr(fd), "inotify")
	// A socket is made, then handed to this user: both are changes.
	if _, err := unix.InotifyAddWatch(fd, path.Dir(socket), unix.IN_CREATE|unix.IN_ATTRIB|unix.IN_MOVED_TO); err != nil {
		log.Debug("changes of the control folder are not told", "error", err)
		events.Close()
		return changes
	}
	context.AfterFunc(ctx, func() { events.Close() })
	go func() {
		buf := make([]byte, 4<<10)
		for {
			if _, err := events.Read(buf); err != nil {
				return // closed
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes
}
