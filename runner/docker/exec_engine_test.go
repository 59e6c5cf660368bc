package docker

import (
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// The exec conformance list of the scheduler's own harness, and the contract's.

func TestExecConformance(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		t.Run("exit code and both streams", func(t *testing.T) {
			got := b.run(t, runner.ExecSpec{Argv: sh("echo out; echo err >&2; exit 43")}, "")
			if got != (result{"out\n", "err\n", 43, nil}) {
				t.Errorf("%+v", got)
			}
		})
	})
}
