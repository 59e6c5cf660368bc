package protocol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// warm is the one warm slot of the installation, once there is one.
func (r *rig) warm(t *testing.T) (id string) {
	t.Helper()
	eventually(t, "a warm slot", func() bool {
		files, _ := filepath.Glob(filepath.Join(r.data, "slots", "*.warm"))
		if len(files) != 1 {
			return false
		}
		id = strings.TrimSuffix(filepath.Base(files[0]), ".warm")
		return true
	})
	return id
}

// recorded reports whether a word is in the task's decision log.
func (w *work) recorded(word string) bool {
	b, _ := os.ReadFile(filepath.Join(w.Dir().Dir, "wardyn", "decisions.jsonl"))
	return strings.Contains(string(b), word)
}

// TestK17TaskFromThePool: a task that is given a warm slot is served by its
// sidecar from its first instruction on, also across a restart of the agent,
// which takes the next warm slot over; and the slot goes with the task.
func TestK17TaskFromThePool(t *testing.T) {
	r := newRigWith(t, map[string]any{"pool": map[string]any{"size": 1}})
	each(t, func(t *testing.T, class string) {
		slot := r.warm(t)
		w := r.start(t, class, "wget -q -O /dev/null http://first.example/; echo before; "+awaitGo+
			"wget -q -O /dev/null http://second.example/; echo after; exit 8")
		agent := w.containers(t)["agent"]
		if !strings.HasPrefix(agent.HostConfig.NetworkMode, "container:") || agent.Labels["wardyn.slot"] != slot {
			t.Errorf("network %s, slot %s, want that of slot %s", agent.HostConfig.NetworkMode, agent.Labels["wardyn.slot"], slot)
		}
		eventually(t, "the first refusal", func() bool { return w.out.has("before\n") && w.recorded("first.example") })
		next := r.warm(t)
		if next == slot {
			t.Errorf("slot %s is warm again", slot)
		}
		h := w.stored(t)
		r.restart(t)
		w.resume(t, h)
		if now := r.warm(t); now != next {
			t.Errorf("warm slot %s, want the one of before, %s", now, next)
		}
		w.release(t)
		w.exits(t, 8)
		if !w.recorded("second.example") || w.out.String() != "before\nafter\n" {
			t.Errorf("output %q, second refusal recorded: %v", w.out.String(), w.recorded("second.example"))
		}
		w.gone(t)
		eventually(t, "the slot is gone", func() bool {
			files, _ := filepath.Glob(filepath.Join(r.data, "slots", slot+"*"))
			return len(files) == 0
		})
	})
}
