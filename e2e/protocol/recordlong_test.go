package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// longMB is how much output a task prints, in MiB. WARDYN_TEST_RECORD_MB=1024
// takes a gibibyte, for a measurement by hand.
func longMB(t *testing.T) int {
	text := os.Getenv("WARDYN_TEST_RECORD_MB")
	if text == "" {
		return 48
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestK36LongOutputOfATask: however much a task prints, its recording keeps to
// its bound and has what was printed first and last, and the process that makes
// it takes no more memory.
func TestK36LongOutputOfATask(t *testing.T) {
	const boundMB, memoryMB = 8, 48
	r := newRigWith(t, map[string]any{"recording_mb": boundMB})
	mib := longMB(t)
	w := r.prepare(t, "CC1", fmt.Sprintf("echo the beginning; "+awaitGo+"yes 0123456789abcde | head -c %d; echo the end; exit 4", mib<<20), moreLogs,
		with(map[string]any{"record": true}))
	w.spec.Stdout = nil // nobody keeps that much
	w.task(t)
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it begins", func() bool { return strings.Contains(w.recordingVerb(t, "cat"), "the beginning\n") })
	keeper := r.keeper(t)
	before := resident(t, keeper)
	w.release(t)
	exit, err := w.Wait(t.Context())
	if err != nil || exit.ExitCode != 4 {
		t.Fatalf("%+v, %v", exit, err)
	}
	grown := (resident(t, keeper) - before) >> 20
	t.Logf("%d MiB of output: the keeper's memory grew by %d MiB", mib, grown)
	if grown > memoryMB {
		t.Errorf("the keeper's memory grew by %d MiB", grown)
	}
	size, err := cast.Size(filepath.Join(w.Dir().Dir, "wardyn"), w.run(t))
	if err != nil || size > boundMB<<20 || size < 1<<20 {
		t.Errorf("the recording takes %d bytes, %v", size, err)
	}
	got := w.plainRecording(t, w.run(t))
	if !strings.HasPrefix(got, "the beginning\n") || !strings.HasSuffix(got, "the end\n[exit 4]\n") {
		t.Errorf("the recording: %q ... %q", got[:min(len(got), 200)], got[max(0, len(got)-200):])
	}
}

// resident is the memory of a process, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
