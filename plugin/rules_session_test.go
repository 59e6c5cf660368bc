package plugin

import (
	"strings"
	"testing"
)

// sessionsOff is an operator who allows none of what sessions can do.
var sessionsOff = map[string]any{"sessions": []any{map[string]any{
	"snapshot": false, "suspend": "false", "home": false, "workspace": false,
}}}

// K35: what is kept of a session is the operator's to allow. Nothing said is
// allowed, and each switch closes its own thing alone.
func TestK35KeptCeilings(t *testing.T) {
	keeps := map[string]map[string]any{
		"home":      {"home": map[string]any{"volume": "alice", "path": "/home/agent"}},
		"workspace": {"workspace": map[string]any{"volume": "web"}},
		"":          {"workspace": map[string]any{}}, // lives with the allocation
	}
	for asked, config := range keeps {
		for _, off := range []string{"home", "workspace", "snapshot", "suspend"} {
			for _, on := range []bool{true, false} {
				h := hostOf(t, map[string]any{"sessions": []any{map[string]any{off: on}}})
				_, err := planOf(t, config, h)
				want := !on && off == asked
				if (err != nil) != want || err != nil && !strings.Contains(err.Error(), "sessions."+off) {
					t.Errorf("%s asked, %s = %v: %v", asked, off, on, err)
				}
			}
		}
		if _, err := planOf(t, config, HostConfig{}); err != nil {
			t.Errorf("%s without a block: %v", asked, err)
		}
	}
	tc, c := taskOf(t, map[string]any{})
	h := hostOf(t, sessionsOff)
	j, f := judgeTask(tc, c, h, node)
	if err := f.err(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, s := range settings(tc, j, translate(tc, j.ask, j.given, j.class, h, node), h) {
		if s.Section == "session" && s.By == ByOperator && s.Why == "plugin option sessions."+s.Name {
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("explain tells of %d of 4", refused)
	}
}

// K35: a task is frozen neither by the verb nor by a signal where the operator
// does not allow it. Everything else of it works, thawing too.
func TestK35SuspendAndSnapshotCeilings(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var config map[string]any
		if !allowed {
			config = sessionsOff
		}
		b := newBench(t, benchOptions{config: config})
		tc, _ := b.start("web", args("idle"))
		for _, words := range [][]string{{"suspend"}, {"snapshot", "mine"}} {
			_, errs, code := b.ask(tc.ID, words...)
			if refused := code == 1 && strings.Contains(errs, "sessions."+words[0]); refused == allowed {
				t.Errorf("allowed %v: %v: %d, %q", allowed, words, code, errs)
			}
		}
		if _, errs, code := b.ask(tc.ID, "resume"); code != 0 {
			t.Errorf("allowed %v: resume: %q", allowed, errs)
		}
		for _, signal := range []string{"SIGSTOP", "tstp", "SIGCONT"} {
			err := b.host.SignalTask(b.ctx(), tc.ID, signal)
			if want := allowed || signal == "SIGCONT"; (err == nil) != want || err != nil && !strings.Contains(err.Error(), "sessions.suspend") {
				t.Errorf("allowed %v: %s: %v", allowed, signal, err)
			}
		}
		b.destroy(tc.ID)
	}
}

// K35: the group of "user:group" is held to the rule of group_add. The user's
// own is not another's.
func TestK35UserGroup(t *testing.T) {
	for user, want := range map[string]string{
		"": "", "1000": "", "node": "", "1000:1000": "", "node:node": "", "0:0": "", "1000:44": "", "root:1001": "",
		"1000:999": "allow_groups", "1000:0": "allow_groups", "node:43": "allow_groups", "node:docker": "number of a group", "0:docker": "number of a group",
	} {
		tc, c := taskOf(t, map[string]any{})
		tc.User = user
		_, err := planTask(tc, c, hostOf(t, openLimits), node)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", user, err, want)
		}
		_, err = planTask(tc, c, closedHost, node)
		if own := want == "" && !strings.HasSuffix(user, ":44") && !strings.HasSuffix(user, ":1001"); (err == nil) != own {
			t.Errorf("%q where no group is allowed: %v", user, err)
		}
	}
}
