package docker

import (
	"errors"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestF36Usage: figures that a known load must show, the same from the kernel
// as from the engine.
func TestF36Usage(t *testing.T) {
	const load = 32 << 20
	eachRuntime(t, func(t *testing.T, rt string) {
		b := startedBox(t, boxSpec{runtime: rt, memoryMB: 256, argv: sh(
			"x=$(head -c 33554432 /dev/zero | tr '\\0' x); echo up; while :; do :; done")})
		b.awaitLog(t, "up\n")
		first := b.usage(t)
		if _, ok := b.use.groups.get(b.ref); !ok {
			t.Error("the engine was asked for what the kernel has")
		}
		var second runner.Usage
		for ctx := soon(t); ctx.Err() == nil && second.CPUTotal < first.CPUTotal+200*time.Millisecond; time.Sleep(50 * time.Millisecond) {
			second = b.usage(t)
		}
		if second.CPUTotal < first.CPUTotal+200*time.Millisecond || second.CPUUser == 0 || second.CPUSystem == 0 ||
			second.CPUUser+second.CPUSystem > second.CPUTotal+time.Second {
			t.Errorf("CPU of a busy loop: %+v", second)
		}
		if u := second; u.MemoryRSS < load || u.MemoryUsage < u.MemoryRSS || !u.MemoryMaxKnown || u.MemoryMax < u.MemoryUsage ||
			u.MemoryMax > 256<<20 {
			t.Errorf("memory of 32 MiB of text: %+v", u)
		}
		if second.Pids < 2 { // init and the shell
			t.Errorf("%d processes", second.Pids)
		}

		other, err := b.usageByEngine(t.Context(), b.ref)
		if err != nil {
			t.Fatal(err)
		}
		now := b.usage(t)
		if other.CPUTotal < second.CPUTotal || other.CPUTotal > now.CPUTotal || other.MemoryRSS < load || other.Pids < 2 ||
			other.MemoryUsage < load {
			t.Errorf("the engine says %+v", other)
		}

		if err := b.StopProcess(t.Context(), b.ref, "", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Usage(t.Context(), b.ref); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("when down: %v", err)
		}
	})
}

func (b *box) usage(t *testing.T) runner.Usage {
	t.Helper()
	u, err := b.Usage(t.Context(), b.ref)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
