package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestBug53PinnedWhileItRuns: a sandbox is moved to other CPUs and back, under
// each runtime, and one that is down cannot be.
func TestBug53PinnedWhileItRuns(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := startedBox(t, boxSpec{runtime: rt, argv: sh("echo up; exec sleep 1000")})
		b.awaitLog(t, "up\n")
		b.usage(t)
		all := b.cpus(t, b.ref)
		for _, cpus := range []string{"0", all, "0"} {
			for range 2 {
				if err := b.PinCPUs(t.Context(), b.ref, cpus); err != nil {
					t.Fatal(err)
				}
				if got := b.cpus(t, b.ref); got != cpus {
					t.Errorf("the sandbox has the CPUs %s, want %s", got, cpus)
				}
			}
		}
		if err := b.PinCPUs(t.Context(), b.ref, "4096"); err == nil {
			t.Error("CPUs that there are not are taken")
		}
		if err := b.StopProcess(t.Context(), b.ref, "", 0); err != nil {
			t.Fatal(err)
		}
		if err := b.PinCPUs(t.Context(), b.ref, "0"); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("when down: %v", err)
		}
	})
}

// cpus are those of a control group that is known already.
func (r *Runner) cpus(t *testing.T, key string) string {
	t.Helper()
	g, ok := r.use.groups.get(key)
	if !ok {
		t.Fatalf("no control group of %s", key)
	}
	b, err := os.ReadFile(filepath.Join(g.cpuset.path, "cpuset.cpus"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
