package docker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// sharedFolder is a folder for verdicts that nobody else has.
func sharedFolder(t *testing.T) sharedVerdicts {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own", "verdicts")
	if err := datadir.MakeShared(dir); err != nil {
		t.Fatal(err)
	}
	return sharedVerdicts{dir}
}

// Invariant 2: a verdict is taken over for the same class, runtime and engine,
// as long as it would stand in its own process, and from nobody else's folder.
func TestVerdictsAreShared(t *testing.T) {
	v, s, now := sharedFolder(t), subject{types.CC2, "runsc"}, time.Now()
	if err := v.remember(s, "engine", now); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		v    sharedVerdicts
		s    subject
		key  string
		now  time.Time
		want bool
	}{
		"at once":        {v, s, "engine", now, true},
		"just in time":   {v, s, "engine", now.Add(goodLife - 1), true},
		"too old":        {v, s, "engine", now.Add(goodLife), false},
		"a clock set":    {v, s, "engine", now.Add(-time.Second), false},
		"another engine": {v, s, "other", now, false},
		"other runtime":  {v, subject{types.CC2, "runc"}, "engine", now, false},
		"other class":    {v, subject{types.CC3, "runsc"}, "engine", now, false},
		"not shared":     {sharedVerdicts{}, s, "engine", now, false},
		"no folder":      {sharedVerdicts{v.dir + "s"}, s, "engine", now, false},
	} {
		if at, ok := tc.v.recall(tc.s, tc.key, tc.now); ok != tc.want || ok && !at.Equal(now.Truncate(0)) {
			t.Errorf("%s: %v, %v", name, at, ok)
		}
	}
	if err := os.Chmod(v.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.recall(s, "engine", now); ok {
		t.Error("a folder that anybody may write in is believed")
	}
	if err := v.remember(s, "engine", now); err == nil {
		t.Error("and written in")
	}
}

// What has aged goes when something new comes.
func TestAgedVerdictsAreDropped(t *testing.T) {
	v, old := sharedFolder(t), time.Now().Add(-goodLife)
	for _, key := range []string{"gone", "stays"} {
		if err := v.remember(subject{types.CC1, "runc"}, key, time.Now()); err != nil {
			t.Fatal(err)
		}
		if key == "gone" {
			if err := os.Chtimes(v.file(subject{types.CC1, "runc"}, key), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left, err := os.ReadDir(v.dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// One process's probe serves the next one; a verdict that says no serves nobody,
// and who has seen the engine away asks for himself.
func TestAnotherProcessNeedNotProbe(t *testing.T) {
	shared, s := sharedFolder(t), subject{types.CC3, "kata"}
	process := func() *fakeWorld {
		w := newFakeWorld(t)
		w.verdicts = shared
		return w
	}
	first := process()
	host := mustFacts(t, first.Runner)
	first.share(s, host, verdict{err: errors.New("broken")})
	first.share(s, host, verdict{left: true})
	next := process()
	if next.recall(s, "k", host); next.findings.has(s, "k") {
		t.Fatal("a bad verdict is shared")
	}
	first.share(s, host, verdict{})
	if next.recall(s, "k", host); !next.findings.has(s, "k") {
		t.Error("the verdict is not taken over")
	}
	process().share(s, host, verdict{err: errors.New("broken since")})
	later := process()
	if later.recall(s, "k", host); later.findings.has(s, "k") {
		t.Error("a yes is believed that a later probe has contradicted")
	}
	first.share(s, host, verdict{})
	wary := process()
	wary.findings.engineGone()
	if wary.recall(s, "k", host); wary.findings.has(s, "k") {
		t.Error("an engine that was away is believed to be the same")
	}
}
