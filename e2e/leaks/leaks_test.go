// Package leaks holds the last test of a run: it counts what the others left.
package leaks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestNothingIsLeft looks for anything of ours on this machine: on the engine,
// in the mount table, among the processes and among the sockets. A live
// installation on the same machine would show here too; run it on one without.
func TestNothingIsLeft(t *testing.T) {
	endpoint := testenv.Engine(t)
	for _, x := range testenv.Leftovers(t, endpoint, "wardyn.managed") {
		t.Errorf("left on the engine: %s", x)
	}
	for _, x := range testenv.Images(t, endpoint, "wardyn-") {
		t.Errorf("left image: %s", x)
	}
	for _, x := range grepFile(t, "/proc/self/mounts", "wardyn") {
		t.Errorf("left mounted: %s", x)
	}
	for _, x := range grepFile(t, "/proc/net/unix", "wardyn") {
		t.Errorf("left socket: %s", x)
	}
	for _, x := range processes(t) {
		t.Errorf("left running: %s", x)
	}
	for _, root := range []string{"/run/wardyn", "/dev/shm/wardyn"} {
		if entries, err := os.ReadDir(root); err == nil {
			t.Errorf("left run directory %s with %d entries", root, len(entries))
		}
	}
}

func grepFile(t *testing.T, path, word string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, word) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// processes lists processes that run one of our three programs.
func processes(t *testing.T) []string {
	t.Helper()
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, exe := range exes {
		target, err := os.Readlink(exe)
		if err != nil {
			continue // ended meanwhile, or a kernel thread
		}
		switch strings.TrimSuffix(filepath.Base(target), " (deleted)") {
		case "nomad-driver-wardyn", "wardyn-proxy", "wardyn-rec":
			out = append(out, filepath.Dir(exe)+" "+target)
		}
	}
	return out
}
