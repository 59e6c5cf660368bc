package docker

import (
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestK42LaunchedTaskFindsItsSidecarReady: the first thing a task does gets an
// answer, although its container was started beside the sidecar's; and all it
// prints arrives. One that is created first and started later finds the same.
func TestK42LaunchedTaskFindsItsSidecarReady(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		for _, launched := range []bool{true, false} {
			var stdout, stderr strings.Builder
			ended := make(chan error, 1)
			spec := specFor(t, rt)
			spec.Task = &runner.TaskProcess{User: "1000:1000", Argv: sh("nslookup ready.example.com; cat /.wardyn/gate; exit 9"),
				Output: keeper.Copy(&stdout, &stderr, func(err error) { ended <- err })}
			if launched {
				sb, err := w.Launch(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				if sb.Ref != AgentName(spec.RunID) {
					t.Errorf("ref %s", sb.Ref)
				}
			} else {
				w.startedSandbox(t, spec)
			}
			code, err := w.Wait(soon(t), AgentName(spec.RunID))
			if err != nil || code != 9 {
				t.Errorf("launched %v: exit %d, %v", launched, code, err)
			}
			if err := testenv.Await(t, "the end of its output", ended); err != nil {
				t.Error(err)
			}
			if out := stdout.String(); !strings.Contains(out, "10.213.") || !strings.HasSuffix(out, "open\n") {
				t.Errorf("launched %v: %q %q", launched, out, stderr.String())
			}
			if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
				t.Error(err)
			}
		}
	})
}
