package plugin

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// flaky is a driver whose first fetch of one image fails.
type flaky struct {
	driver.Driver
	bad string

	mu    sync.Mutex
	asked []string
}

func (f *flaky) Prepull(_ context.Context, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, ref)
	if ref == f.bad && !slices.Contains(f.asked[:len(f.asked)-1], ref) {
		return runner.ErrUnavailable
	}
	return nil
}

// D45: what the operator lists is fetched once, what fails is tried again, and
// an end of the plugin ends it.
func TestD45PrepullByTheOperator(t *testing.T) {
	p := newBench(t, benchOptions{}).plugin()
	f := &flaky{bad: "b"}
	p.prepull(t.Context(), f, []string{"a", "b", "c"}, time.Millisecond)
	if got := strings.Join(f.asked, " "); got != "a b c b" {
		t.Errorf("asked for %s", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f = &flaky{bad: "b"}
	p.prepull(over, f, []string{"b"}, time.Hour)
	if len(f.asked) != 1 {
		t.Errorf("asked for %v after the end", f.asked)
	}
}

// The list is read and reaches whoever fetches; what is no name is refused.
func TestD45PrepullOption(t *testing.T) {
	h := hostOf(t, map[string]any{"images": []any{map[string]any{"prepull": []any{"busybox", "registry.example.org/acme/agent:1"}}}})
	if !slices.Equal(h.Images.Prepull, []string{"busybox", "registry.example.org/acme/agent:1"}) {
		t.Errorf("%v", h.Images.Prepull)
	}
	for _, bad := range []string{"", "registry.example.org/acme/*", "A B"} {
		_, err := hostConfig(operator(t, map[string]any{"images": []any{map[string]any{"prepull": []any{bad}}}}))
		if err == nil || !strings.Contains(err.Error(), "images.prepull") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
