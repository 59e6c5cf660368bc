package runnertest

import (
	"context"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// CheckRecordingCapability holds a runner to what it says of recordings (C14).
// probe makes one and returns where it is, "" for nowhere; nil is no probe.
func CheckRecordingCapability(t *testing.T, r runner.Runner, probe func(t *testing.T) (artifact string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	caps, err := r.Capabilities(ctx)
	switch {
	case err != nil:
		t.Fatalf("Capabilities: %v", err)
	case !caps.SessionRecording && probe != nil:
		t.Error("a recording can be made and is not claimed")
	case !caps.SessionRecording:
		t.Log("recordings are not claimed, so there is nothing to show")
	case len(caps.ConfinementClasses) == 0:
		t.Error("recordings are claimed where no class works")
	case probe == nil:
		t.Skip("recordings are claimed, and nothing here could show one")
	case probe(t) == "":
		t.Error("recordings are claimed and none was made")
	}
}
