package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// keepers is a runner whose sidecars die when the test says so.
type keepers struct {
	*rigged
	deaths chan runner.SidecarDeath
	keeps  chan string // refs whose sidecar is looked after
}

func (k *keepers) KeepSidecar(ctx context.Context, ref string, heard func(runner.SidecarDeath)) error {
	k.keeps <- ref
	for {
		select {
		case d := <-k.deaths:
			heard(d)
			if d.Err != nil {
				return errors.Join(runner.ErrSidecarLost, k.StopProcess(ctx, ref, "", 0))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A sidecar that was replaced is an event; one that could not be is the task's
// end, which names it. A recovered task's is looked after as well.
func TestSidecarDeaths(t *testing.T) {
	k := &keepers{deaths: make(chan runner.SidecarDeath), keeps: make(chan string, 4)}
	b := newBench(t, benchOptions{wrap: func(r runner.Runner) runner.Runner { k.rigged = rig(r); return k }})
	tc, h := b.start("web", args("sleep", "3600"))
	said := func(what string) bool {
		return slices.ContainsFunc(b.said(tc.ID), func(m string) bool { return strings.Contains(m, what) })
	}
	<-k.keeps
	k.deaths <- runner.SidecarDeath{Cause: "exit code 137"}
	b.eventually("a restart is an event", func() bool { return said("Sidecar restarted") && said("exit code 137") })
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	if ref := <-k.keeps; ref != refOf(tc) {
		t.Errorf("after a crash the sidecar of %s is looked after", ref)
	}
	k.deaths <- runner.SidecarDeath{Cause: "exit code 1", Err: errors.New("no subnet")}
	if r := b.wait(tc.ID); !strings.Contains(r.Err, "no subnet") {
		t.Errorf("exit: %+v", r)
	}
	b.eventually("a stop is an event", func() bool { return said("Sandbox stopped") && said("no subnet") })
	b.destroy(tc.ID)
	b.nothingLeft()
}
