package plugin

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// Bug 40: a new process has statistics of the tasks it has recovered.
func TestBug40StatsAfterRecovery(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h.Persisted()); err != nil {
		t.Fatal(err)
	}
	err := b.host.TaskStats(b.ctx(), tc.ID, time.Millisecond, func(u host.TaskUsage) error {
		if u.Memory.RSS == 0 {
			t.Errorf("%+v", u)
		}
		return io.EOF
	})
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	b.destroy(tc.ID)
}
