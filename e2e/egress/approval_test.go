package egress

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

const (
	newHost  = "other.example.internal:8080"
	askNew   = "/bin/client http://" + newHost + "/v1"
	approved = "200 hello from " + newHost + "/v1"
)

// ctl uses the command line of root on the node.
func (r *rig) ctl(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(deadline(t), r.binary, append([]string{"ctl", "-data-dir", r.data}, words...)...).CombinedOutput()
	if err != nil {
		t.Errorf("ctl %v: %v\n%s", words, err, out)
	}
	return string(out)
}

func review(mode string) map[string]any {
	return map[string]any{"egress": []any{map[string]any{"first_use": mode}}}
}

var pendingID = regexp.MustCompile(`(?m)^([0-9a-f]{8})  ` + regexp.QuoteMeta(newHost))

// TestK34FirstUse goes through the life of an approval: a request waits, root
// on the node is told and lets it pass, sidecar and plugin die over it, and
// taking it back cuts what it let through.
func TestK34FirstUse(t *testing.T) {
	r := newRig(t, nil)
	each(t, func(t *testing.T, class string) {
		w := r.start(t, class, review("wait_for_review"))
		answer := make(chan string, 1)
		go func() { answer <- w.sh(t, askNew) }()
		eventually(t, "the event", func() bool { return strings.Contains(r.told(w.ID()), "Approval waiting: first use of "+newHost) })
		if got := w.exec(t, "wardyn", "approve", newHost); !strings.Contains(got, "decided on the node") {
			t.Errorf("an author approves: %s", got)
		}
		list := r.ctl(t, "pending")
		id := pendingID.FindStringSubmatch(list)
		if id == nil || !strings.Contains(list, "default/job task main") {
			t.Fatalf("pending: %s", list)
		}
		r.ctl(t, "approve", id[1], "-note", "fine by me")
		first := <-answer // a hold that ran out is answered with how to go on
		if !strings.Contains(first, approved) && !strings.Contains(first, "approval:pending") {
			t.Errorf("the request that waited: %s", first)
		}
		eventually(t, "the approval", func() bool { return strings.Contains(w.sh(t, askNew), approved) })
		if other := w.sh(t, "/bin/client http://other.example.internal:8081/"); strings.Contains(other, "200 ") || !strings.Contains(other, "approval") {
			t.Errorf("G9: another port: %s", other)
		}
		w.survives(t)
		w.revoked(t, id[1])
	})
}

// survives kills the sidecar, then the plugin.
func (w *work) survives(t *testing.T) {
	t.Helper()
	before := w.containers(t)["proxy"]
	if err := w.rig.engine.ContainerKill(deadline(t), before, "KILL"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer through another sidecar", func() bool { return strings.Contains(w.sh(t, askNew), approved) })
	launches := w.rig.Launches()
	if err := syscall.Kill(w.rig.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another plugin", func() bool { return w.rig.Launches() > launches })
	eventually(t, "an answer under another plugin", func() bool {
		var out testenv.Buffer
		_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"/bin/sh", "-c", askNew}, Stdout: &out, Stderr: &out})
		return err == nil && strings.Contains(out.String(), approved)
	})
}

// revoked takes the approval back under an open tunnel.
func (w *work) revoked(t *testing.T, id string) {
	t.Helper()
	var out testenv.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"/bin/client", "hold", newHost}, Stdout: &out, Stderr: &out})
		done <- err
	}()
	eventually(t, "a tunnel", func() bool { return strings.Contains(out.String(), "streaming") })
	if got := w.rig.ctl(t, "revoke", id); !strings.Contains(got, "revoked: "+newHost) {
		t.Errorf("ctl revoke: %s", got)
	}
	if err := <-done; err != nil || !strings.Contains(out.String(), "tunnel: over") {
		t.Errorf("the tunnel: %v, %s", err, out.String())
	}
	if got := w.sh(t, askNew); !strings.Contains(got, "approval:denied") {
		t.Errorf("after it was taken back: %s", got)
	}
	var list []struct{ State, Note string }
	all := w.exec(t, "wardyn", "pending", "-all", "-json")
	if err := json.Unmarshal([]byte(all), &list); err != nil || len(list) == 0 || list[0].State != "DENIED" {
		t.Errorf("%v: %s", err, all)
	}
}

// TestK34Exec: where the operator says so, whoever may execute in the
// allocation decides, and the record says that nobody knows who that is.
func TestK34Exec(t *testing.T) {
	r := newRig(t, map[string]any{"approvals": "exec", "deny_domains": []any{"*.beyond.example"}})
	w := r.start(t, "CC1", review("deny_with_review"))
	if got := w.sh(t, askNew); !strings.Contains(got, "approval:pending") {
		t.Errorf("the first use: %s", got)
	}
	if got := w.exec(t, "wardyn", "approve", newHost, "-for", "1h", "-scope", "attempt"); !strings.Contains(got, "Approved until") {
		t.Errorf("approve: %s", got)
	}
	eventually(t, "the approval", func() bool { return strings.Contains(w.sh(t, askNew), approved) })
	if got := w.exec(t, "wardyn", "pending", "-all"); !strings.Contains(got, "by alloc-exec, caller not disclosed by Nomad") {
		t.Errorf("who: %s", got)
	}
	// What is beyond the operator's lists is refused without asking anybody.
	if got := w.sh(t, "/bin/client http://a.beyond.example/"); !strings.Contains(got, "policy:denied") {
		t.Errorf("beyond the ceiling: %s", got)
	}
	if got := w.exec(t, "wardyn", "pending"); !strings.Contains(got, "nothing waits") {
		t.Errorf("pending: %s", got)
	}
	// The sandbox cannot reach the verbs, nor a credential by way of its sidecar.
	if got := w.sh(t, "wardyn approve "+newHost); !strings.Contains(got, "not found") {
		t.Errorf("inside: %s", got)
	}
}
