package protocol

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK40OnePluginADataDir: a second plugin on a data dir is unhealthy and says
// why, and what to do; the first is not disturbed. Nobody stands in the way of
// an agent's own next plugin: neither one that is ending, nor one whose agent
// died.
func TestK40OnePluginADataDir(t *testing.T) {
	r := newRig(t)
	w := r.start(t, "CC1", awaitGo+"exit 9")
	h := w.stored(t)

	var other prints
	o := r.options(r.config())
	o.OnFingerprint = other.add
	second, err := host.Launch(deadline(t), o)
	if err != nil {
		t.Fatalf("the configuration is refused for the state of the node: %v", err)
	}
	defer second.Close()
	eventually(t, "the second is unhealthy", func() bool {
		f := other.last()
		return f.Health == host.Unhealthy && strings.Contains(f.Description, fmt.Sprintf("in use by another plugin (process %d)", r.Pid())) &&
			strings.Contains(f.Description, r.data) && strings.Contains(f.Description, "data_dir of its own")
	})
	if err := second.RecoverTask(deadline(t), h); err == nil || !strings.Contains(err.Error(), "in use by another plugin") {
		t.Errorf("the second took the first one's task: %v", err)
	}
	second.Close()
	if s, err := r.InspectTask(deadline(t), w.ID()); err != nil || s.State != host.TaskRunning {
		t.Errorf("the first one's task: %+v, %v", s, err)
	}

	// The agent dies, and its successor does not find the plugin again.
	left := r.Detach()
	defer syscall.Kill(left.Pid, syscall.SIGKILL)
	r.Plugin = r.launch(t, nil)
	w.resume(t, h)
	if r.Pid() == left.Pid {
		t.Fatal("it is the same plugin")
	}
	eventually(t, "the plugin that was left ends", func() bool { return syscall.Kill(left.Pid, 0) == syscall.ESRCH })
	w.release(t)
	w.exits(t, 9)
	w.gone(t)
}

// prints keeps a plugin's last fingerprint.
type prints struct {
	mu sync.Mutex
	f  host.Fingerprint
}

func (p *prints) add(f host.Fingerprint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.f = f
}

func (p *prints) last() host.Fingerprint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f
}
