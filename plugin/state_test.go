package plugin

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func TestStateRoundTrip(t *testing.T) {
	s := state{
		Version: stateVersion, Run: uuid.New(), Ref: "wardyn_agent_x", Session: "a.t", Class: types.CC2,
		Image: "busybox", TTY: true, Started: time.Unix(1, 2).UTC(), Allow: []string{"a.example"}, AllowAll: true,
	}
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeState(b)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestD13StateThatIsNotOurs(t *testing.T) {
	run := uuid.NewString()
	for b, words := range map[string]string{
		"":                            "driver state",
		"null":                        "version 0",
		"\x82\xa3foo":                 "driver state",
		`{"run":"` + run + `"}`:       "version 0",
		`{"version":2,"ref":"x"}`:     "version 2",
		`{"version":1}`:               "no run",
		`{"version":1,"run":"x"}`:     "driver state",
		`{"version":1,"ref":"x"}`:     "no run",
		`{"version":-1,"run":"` + run: "driver state",
	} {
		if _, err := decodeState([]byte(b)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %q in it", b, err, words)
		}
	}
}

// TestRunIDIsPinned: a change here would orphan every running task.
func TestRunIDIsPinned(t *testing.T) {
	got := RunID("5d1c5c4e-9b7a-4f0c-8f1d-3a470f6b1f5e/claude/0badcafe").String()
	if want := "4e9f346d-5207-596b-81d7-bcf3a424346c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if RunID("a/t/1") == RunID("a/t/2") {
		t.Error("two attempts share a run")
	}
}
