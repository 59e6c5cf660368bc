package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// metered is a runner whose sidecars can be measured, or cannot.
type metered struct {
	*runnertest.Fake
	next runner.Usage
	err  error
}

func (m *metered) SidecarUsage(context.Context, string) (runner.Usage, error) { return m.next, m.err }

// TestSidecarIsShownApart: the sidecar is shown beside the task, with rates of its own, and a
// sidecar that cannot be measured just now is left out.
func TestSidecarIsShownApart(t *testing.T) {
	start := time.Now()
	m := &metered{next: runner.Usage{Time: start, MemoryRSS: 5 << 20}}
	s := sidecarSampler{r: m, ref: "x"}
	c := compute{Cores: 2, MHz: 4000}
	if got := s.sample(t.Context(), c)[sidecarKey]; got.GetMemory().GetRss() != 5<<20 {
		t.Errorf("first sample %v", got)
	}
	m.next = runner.Usage{Time: start.Add(time.Second), CPUTotal: 100 * time.Millisecond}
	if got := s.sample(t.Context(), c)[sidecarKey].GetCpu().GetPercent(); got != 10 {
		t.Errorf("%v %% of a core, want 10", got)
	}
	m.err = errors.New("another is taking its place")
	if got := s.sample(t.Context(), c); got != nil {
		t.Errorf("got %v", got)
	}
	if got := (&sidecarSampler{r: runnertest.New(runnertest.Options{})}).sample(t.Context(), c); got != nil {
		t.Errorf("a runner without the power: %v", got)
	}
}
