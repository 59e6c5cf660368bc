package docker

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelLog is where the kernel says whom it killed for memory.
const kernelLog = "/dev/kmsg"

// killedForMemory asks the kernel's log when a process of a container was last
// killed for want of memory. The engine's own flag misses it where the whole
// sandbox dies at that moment, as under gVisor, or the host is busy: it hears of
// the death first. A log that cannot be read says nothing.
func killedForMemory(containerID string) (at time.Time, ok bool) {
	fd, err := unix.Open(kernelLog, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return at, false
	}
	defer unix.Close(fd)
	var since time.Duration
	b := make([]byte, 8<<10) // the kernel's own bound on one record
	for {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // records were overwritten while we read
		case err != nil || n <= 0:
			return sinceBoot(since), ok // the end
		}
		if record := string(b[:n]); isMemoryKill(record, containerID) {
			since, ok = recordTime(record), true
		}
	}
}

// recordTime is when a record was made, by the kernel's clock; zero when the
// record does not say.
func recordTime(record string) time.Duration {
	head, _, _ := strings.Cut(record, ";")
	fields := strings.Split(head, ",") // priority, number, microseconds, flags
	if len(fields) < 3 {
		return 0
	}
	us, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// sinceBoot is what the clock showed when the kernel's showed d. Like that one,
// the raw clock is not set by anybody.
func sinceBoot(d time.Duration) time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		return time.Time{}
	}
	return time.Now().Add(d - time.Duration(now.Nano()))
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
