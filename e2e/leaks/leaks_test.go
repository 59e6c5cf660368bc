// Package leaks holds the first and the last step of a run: what is of ours on
// this machine before it, and that it has not become more after it.
package leaks

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

var (
	remember = flag.String("remember", "", "note what is there in `FILE`, and call nothing left behind")
	baseline = flag.String("baseline", "", "what `FILE` notes was there before and is not left behind")
)

func TestNothingIsLeft(t *testing.T) {
	found := ours(t)
	if *remember != "" {
		if err := os.WriteFile(*remember, []byte(strings.Join(found, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	var before []string
	if *baseline != "" {
		b, err := os.ReadFile(*baseline)
		if err != nil {
			t.Fatal(err)
		}
		before = strings.Split(string(b), "\n")
	}
	left := newIn(found, before)
	// What was killed in the last test may still be ending.
	for end := time.Now().Add(testenv.Patience); len(left) > 0 && time.Now().Before(end); left = newIn(ours(t), before) {
		time.Sleep(time.Second)
	}
	for _, x := range left {
		t.Errorf("left behind: %s", x)
	}
}

// newIn are those of found that were not there before.
func newIn(found, before []string) []string {
	return slices.DeleteFunc(found, func(x string) bool { return slices.Contains(before, x) })
}

// ours lists everything of ours on this machine: on the engine, in the mount
// table, among the sockets, the processes and the run directories.
func ours(t *testing.T) []string {
	t.Helper()
	endpoint := testenv.Engine(t)
	out := testenv.Leftovers(t, endpoint, "wardyn.managed")
	for i, x := range out {
		// A container's status says how long it has been up.
		out[i] = strings.Join(strings.Fields(x)[:2], " ")
	}
	for _, x := range testenv.Images(t, endpoint, "wardyn-") {
		out = append(out, "image "+x)
	}
	for _, x := range grepFile(t, "/proc/self/mounts", "wardyn") {
		out = append(out, "mount "+x)
	}
	for _, x := range grepFile(t, "/proc/net/unix", "wardyn") {
		out = append(out, "socket "+x[strings.LastIndexByte(x, ' ')+1:])
	}
	out = append(out, processes(t)...)
	for _, root := range []string{"/run/wardyn", "/dev/shm/wardyn"} {
		entries, _ := os.ReadDir(root)
		for _, e := range entries {
			if e.Name() == "verdicts" {
				continue // the node's, not an installation's: it ages, and goes with a reboot
			}
			out = append(out, "run directory "+filepath.Join(root, e.Name()))
		}
	}
	return out
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
			out = append(out, "process "+filepath.Dir(exe)+" "+target)
		}
	}
	return out
}
