package docker

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelLog is where the kernel says whom it killed for memory.
const kernelLog = "/dev/kmsg"

// killedForMemory asks the kernel's log whether a process of a container was
// killed for want of memory. The engine's own flag misses it where the whole
// sandbox dies at that moment, as under gVisor: it hears of the death first. A
// log that cannot be read says nothing.
func killedForMemory(containerID string) bool {
	fd, err := unix.Open(kernelLog, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	b := make([]byte, 8<<10) // the kernel's own bound on one record
	for {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // records were overwritten while we read
		case err != nil || n <= 0:
			return false // the end
		}
		if isMemoryKill(string(b[:n]), containerID) {
			return true
		}
	}
}

// isMemoryKill reports whether a record tells of a kill in a container's
// control group. Container ids are never used twice, so the time is no matter.
func isMemoryKill(record, containerID string) bool {
	_, text, ok := strings.Cut(record, "oom-kill:")
	if !ok || containerID == "" {
		return false
	}
	for field := range strings.SplitSeq(text, ",") {
		if name, path, _ := strings.Cut(field, "="); name == "task_memcg" && strings.Contains(path, containerID) {
			return true
		}
	}
	return false
}
