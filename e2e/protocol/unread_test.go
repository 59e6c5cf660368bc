package protocol

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// unread is a log that nobody takes anything off.
type unread struct{ read chan struct{} }

func (u unread) Write(p []byte) (int, error) {
	<-u.read
	return len(p), nil
}

// TestK8UnreadLogHoldsNoStop: a task that has more to say than anybody reads is
// stopped all the same. Docker 20.10 answers nothing about it, and tells of no
// end, before its output is let go of.
func TestK8UnreadLogHoldsNoStop(t *testing.T) {
	r := newRig(t)
	log := unread{make(chan struct{})}
	defer close(log.read)
	w := r.prepare(t, "CC1", "yes", func(s *host.TaskSpec) { s.Stdout = log })
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	full := func() bool {
		fd, err := unix.Open(w.Handle().Config.StdoutPath, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		return err == nil && n == 0
	}
	looks := 0
	eventually(t, "a log that stays full", func() bool {
		if looks++; !full() {
			looks = 0
		}
		return looks > 20 // the engine's own buffers fill up as well
	})
	if err := r.StopTask(deadline(t), w.ID(), time.Second, ""); err != nil {
		t.Errorf("stop: %v", err)
	}
}
