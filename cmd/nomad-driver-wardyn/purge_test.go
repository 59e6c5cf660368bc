package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
)

// TestOnNode: what a purge removes beside the engine's is listed while it is
// there; the run root that looking makes is nothing to remove.
func TestOnNode(t *testing.T) {
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.RemoveRunRoot() })
	p := &parts{dir: d, keeper: &keeper.Client{Socket: filepath.Join(d.RunRoot(), "keeper.sock")}}
	if got := p.onNode(); len(got) > 0 {
		t.Errorf("of an installation that was only looked at: %q", got)
	}
	ctl := filepath.Join(d.RunRoot(), control.CtlSocket)
	if err := os.WriteFile(ctl, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := p.onNode()
	for _, what := range []string{ctl + " (the socket of ctl)", d.RunRoot() + " (the run root)"} {
		if !slices.Contains(got, what) {
			t.Errorf("%s, want %q", strings.Join(got, "\n"), what)
		}
	}
	if err := os.Remove(ctl); err != nil {
		t.Fatal(err)
	}
}
