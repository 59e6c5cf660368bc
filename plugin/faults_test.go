package plugin

import (
	"errors"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
)

// TestI7NumbersThatDoNotFit: a number that its option cannot hold is refused by
// the option's name, together with everything else that is wrong.
func TestI7NumbersThatDoNotFit(t *testing.T) {
	b := newBench(t, benchOptions{})
	config := args("true")
	config["pids_limit"], config["oom_score_adj"], config["hostname"] = 10.5, 1e30, "a b"
	_, _, err := b.host.StartTask(b.ctx(), b.task("web", config))
	want := []string{"3 reasons", "pids_limit = 10.5: ", "without a fraction", "oom_score_adj = 1000000000000000000000000000000: ", "a smaller number", "hostname = "}
	for _, words := range want {
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("start: %v, want %q in one line of it", err, words)
		}
	}
	options, err := hclconf.Msgpack(configSpec(), map[string]any{"max_memory": 1.5, "allow_groups": []any{2.5}, "slots": -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ReadHostConfig(options)
	var found *faults
	if !errors.As(err, &found) || len(found.list) != 3 {
		t.Errorf("options: %v, want three faults", err)
	}
	for _, words := range []string{"max_memory = 1.5: ", "allow_groups.0 = 2.5: ", "slots = -1: "} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("options: %v, want %q in it", err, words)
		}
	}
	if _, review := ReviewHostConfig(map[string]any{"max_memory": 1.5, "slots": -1}); len(review) != 2 {
		t.Errorf("review: %v, want two faults", review)
	}
}
