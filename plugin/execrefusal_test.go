package plugin

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// Nomad drops an error of an exec that does not fit into the end of a WebSocket:
// what is too long comes on stderr, and its cause as the error.
func TestExecRefusalsFitWhatNomadPassesOn(t *testing.T) {
	ref := "wardyn_agent_d75a12a4-bd45-5762-9b09-3065ca257634"
	for text, want := range map[string]string{
		`task "signals": it is parked; resume it first, with the verb resume: precondition failed`:                 `task "signals": it is parked; resume it first, with the verb resume`,
		`exec in task "main": exec in ` + ref + `: precondition failed: the sandbox is suspended; resume it first`: "the sandbox is suspended; resume it first",
		strings.Repeat("\u00e9", 60): strings.Repeat("\u00e9", 38) + "...",
	} {
		if got := shortened(text, 79); got != want || len(got) > 79 {
			t.Errorf("%q: %q", text, got)
		}
	}
	b := newBench(t, benchOptions{})
	long := strings.Repeat("agent", 12)
	tc, _ := b.start(long, args("idle"))
	if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
		t.Fatal(errs)
	}
	var out bytes.Buffer
	_, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{TaskID: tc.ID, Command: []string{"true"}, Stdout: io.Discard, Stderr: &out})
	if err == nil || !strings.HasSuffix(err.Error(), "it is parked; resume it first, with the verb resume") || !strings.Contains(out.String(), fmt.Sprintf("task %q: it is parked", long)) {
		t.Errorf("%v, %q", err, out.String())
	}
	b.destroy(tc.ID)
}
