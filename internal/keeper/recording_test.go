package keeper

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// recording is a world whose task is recorded, and its folder.
func recording(t *testing.T) (*world, string) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "wardyn")
	w.task.Record = &cast.Options{Dir: dir, Name: "run", Of: cast.OfMain, Secrets: []string{"first-secret"}}
	return w, dir
}

// shown is a recording's text.
func shown(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, cast.OpenParts(dir, "run", func(_ int, f io.Reader) error { return cast.Plain(&out, f) }))
	return out.String()
}

// I3: what a recording is not to show is asked for when the output is handed over.
func TestI3SecretsAreAskedForAtTheHandover(t *testing.T) {
	w, dir := recording(t)
	secret := "first-secret"
	w.task.Secrets = func() []string { return []string{secret} }
	secret = "later-secret"
	out, errs := collect(t, w.task.Stdout), collect(t, w.task.Stderr)
	w.follow(t)
	w.proc.print(stdout, "a later-secret\n")
	w.delivered(t, 15)
	w.proc.exit()
	if st, err := w.Wait(t.Context(), "t"); err != nil || st.Unrecorded != "" {
		t.Fatalf("%+v, %v", st, err)
	}
	must(t, w.Finish(t.Context(), w.task, time.Second))
	whole(t, out)
	whole(t, errs)
	if got := shown(t, dir); !strings.Contains(got, "a <secret-hidden>\n") {
		t.Errorf("recorded %q", got)
	}
}

// K36: what the log gets is recorded, and how the task ended; not a secret,
// also one that is known later.
func TestK36OutputIsRecorded(t *testing.T) {
	w, dir := recording(t)
	w.follow(t)
	out, errs := collect(t, w.task.Stdout), collect(t, w.task.Stderr)
	w.proc.print(stdout, "a first-secret\n")
	w.proc.print(stderr, "on stderr\n")
	w.delivered(t, 15)
	must(t, w.HideRecorded(t.Context(), "t", "later-secret"))
	w.proc.print(stdout, "b later-secret\n")
	w.proc.exit()
	if st, err := w.Wait(t.Context(), "t"); err != nil || st.Unrecorded != "" {
		t.Fatalf("%+v, %v", st, err)
	}
	_, err := w.EndRecording(t.Context(), w.task, "exit 3")
	must(t, err)
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); got != "a first-secret\nb later-secret\n" {
		t.Errorf("log %q", got)
	}
	whole(t, errs)
	got := shown(t, dir)
	for _, want := range []string{"a <secret-hidden>\n", "b <secret-hidden>\n", "on stderr\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if !strings.HasSuffix(got, "[exit 3]\n") || strings.Contains(got, "-secret\n") {
		t.Errorf("recorded %q", got)
	}
}

// A keeper that dies leaves a recording that says so and goes on.
func TestK36KeeperDies(t *testing.T) {
	w, dir := recording(t)
	collectAll(t, w.task.Stdout)
	collectAll(t, w.task.Stderr)
	w.follow(t)
	w.proc.print(stdout, "before\n")
	w.delivered(t, 7)
	kill(t, w.Socket)
	w.proc.print(stdout, "between\n")
	_, err := w.Resume(t.Context(), w.task, "", true, w.proc)
	must(t, err)
	w.proc.print(stdout, "after\n")
	w.proc.exit()
	_, err = w.Wait(t.Context(), "t")
	must(t, err)
	kill(t, w.Socket) // and one that dies before the end is known
	quit, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	defer func() { must(t, w.Quit(quit)) }() // removes its socket
	_, err = w.EndRecording(context.WithoutCancel(t.Context()), w.task, "exit 0")
	must(t, err)
	must(t, w.Finish(t.Context(), w.task, time.Second))
	want := "before\n[the recorder was interrupted here]\nbetween\nafter\n[the recorder was interrupted here]\n[exit 0]\n"
	if got := shown(t, dir); got != want {
		t.Errorf("recorded %q", got)
	}
}

// A recording that cannot be made changes nothing for the log.
func TestK36NoRecordingStopsNoOutput(t *testing.T) {
	w, dir := recording(t)
	must(t, os.WriteFile(dir, nil, 0o600))
	w.follow(t)
	out := collect(t, w.task.Stdout)
	collect(t, w.task.Stderr)
	w.proc.print(stdout, "all\n")
	w.proc.exit()
	st, err := w.Wait(t.Context(), "t")
	must(t, err)
	must(t, w.Finish(t.Context(), w.task, time.Second))
	if got := whole(t, out); got != "all\n" || st.Unrecorded == "" {
		t.Errorf("log %q, %+v", got, st)
	}
}
