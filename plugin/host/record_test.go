package host

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// deadline bounds what a test waits for; nothing is measured against it.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for what another process brings about.
var eventually = testenv.Eventually

// launch starts this test binary as a plugin process. dir is where it records its calls.
func launch(t *testing.T, o Options) (p *Plugin, dir string) {
	t.Helper()
	o, dir = processOptions(t, o)
	p, err := Launch(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, dir
}

func processOptions(t *testing.T, o Options) (Options, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o.Path = self
	o.Env = append(o.Env, fakeDir+"="+dir, "TMPDIR="+dir, "PATH="+os.Getenv("PATH"))
	o.Log, o.LogLevel = t.Output(), "warn"
	return o, dir
}

// methods are the recorded calls of one process in order, the two streams (which open
// concurrently) sorted.
func methods(t *testing.T, dir string, pid int) []string {
	t.Helper()
	var out []string
	for _, c := range calls(t, dir) {
		if c.Pid == pid && c.Method != "environ" {
			out = append(out, c.Method)
		}
	}
	if i := slices.Index(out, "TaskEvents"); i > 0 && out[i-1] == "Fingerprint" {
		out[i-1], out[i] = out[i], out[i-1]
	}
	return out
}

// pids are the recorded processes in the order of their start.
func pids(t *testing.T, dir string) []int {
	t.Helper()
	var out []int
	for _, c := range calls(t, dir) {
		if !slices.Contains(out, c.Pid) {
			out = append(out, c.Pid)
		}
	}
	return out
}

func opened(t *testing.T, dir string, pid int) bool {
	t.Helper()
	m := methods(t, dir, pid)
	return slices.Contains(m, "Fingerprint") && slices.Contains(m, "TaskEvents")
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func hasBreach(p *Plugin, trap Trap) bool {
	return slices.ContainsFunc(p.Breaches(), func(b Breach) bool { return b.Trap == trap })
}
