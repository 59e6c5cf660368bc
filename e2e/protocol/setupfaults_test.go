package protocol

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// registrations are gVisor as an engine may know it: keeping the changes of
// containers to itself, as it does unless told otherwise, or not.
func registrations(t *testing.T) map[string]testenv.Runtime {
	t.Helper()
	info, err := testenv.Client(t, testenv.Engine(t)).Info(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	have, ok := info.Runtimes["runsc"]
	if !ok {
		return nil
	}
	args := slices.DeleteFunc(slices.Clone(have.Args), func(a string) bool { return strings.HasPrefix(a, "--overlay2") })
	return map[string]testenv.Runtime{
		"runsc-keeps": {Path: have.Path, Args: args},
		"runsc-gives": {Path: have.Path, Args: append(slices.Clone(args), "--overlay2=none")},
	}
}

// TestD11SetupOnAnEngineOfItsOwn: what only an engine for the test can show.
// Under either registration of gVisor no task starts from an image that lacks
// what its setup made, and a full disk leaves nothing half made.
func TestD11SetupOnAnEngineOfItsOwn(t *testing.T) {
	runtimes := registrations(t)
	engine := testenv.StartEngine(t, testenv.EngineOptions{Runtimes: runtimes, DataMiB: 400})
	t.Run("disk full", func(t *testing.T) { newRig(t).setupDiskFull(t) })
	t.Run("engine killed", func(t *testing.T) { newRig(t).setupEngineKilled(t, engine) })
	for name := range runtimes {
		t.Run("K24 "+name, func(t *testing.T) {
			r := newRigWith(t, map[string]any{"confinement": []any{map[string]any{"runtimes": []any{map[string]any{"CC2": name}}}}})
			w := r.start(t, "CC2", "cat /made", setup("echo inside > /made"))
			if name == "runsc-gives" {
				w.exits(t, 0)
				if !w.out.has("inside\n") {
					t.Errorf("output %q, %q", w.out.String(), w.err.String())
				}
				return
			}
			exit, err := w.Wait(deadline(t))
			if err != nil || exit.ExitCode != 120 || w.out.has("inside") {
				t.Errorf("%+v, %v: %q, %q", exit, err, w.out.String(), w.err.String())
			}
			r.told(t, w.ID(), "--overlay2=none")
			if strings.Contains(r.images(t), "rainier-env") {
				t.Error("an image that lacks the changes is kept")
			}
		})
	}
}

// setupDiskFull: the disk fills while the script runs, and while its result is
// made into an image. Both are told, nothing is kept, and what is in the
// workspace stays; with room again the next setup works.
func (r *rig) setupDiskFull(t *testing.T) {
	before := r.images(t)
	for name, c := range map[string]struct{ script, event string }{
		"while it runs":    {"dd if=/dev/zero of=/big bs=1M count=100000 2>&1", "The setup script failed (exit code 120)"},
		"while it is kept": {"dd if=/dev/zero of=/big bs=1M count=$(df -m / | awk 'NR==2 {print int($4*0.8)}') 2>&1", "no space left"},
	} {
		// The engine's disk is in memory, and what is written is the writer's.
		w := r.prepare(t, "CC1", "echo agent", setup(c.script), func(s *host.TaskSpec) { s.Resources.MemoryMB = 600 })
		checkKept := testenv.Precious(t, filepath.Join(w.Dir().Local, "workspace", "kept"))
		if err := w.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		exit, err := w.Wait(deadline(t))
		if err != nil || exit.ExitCode != 120 || w.out.has("agent") {
			t.Errorf("%s: %+v, %v: %q, %q", name, exit, err, w.out.String(), w.err.String())
		}
		r.told(t, w.ID(), c.event)
		checkKept()
		if now := r.images(t); now != before {
			t.Errorf("%s: images:\n%s", name, now)
		}
	}
	w := r.start(t, "CC1", "cat /made", setup("echo room > /made"))
	w.exits(t, 0)
	if !w.out.has("room\n") {
		t.Errorf("with room again: %q, %q", w.out.String(), w.err.String())
	}
}

// setupEngineKilled: the engine is killed while the script runs, and while it makes
// the image of it. When it is back the task has failed for that, nothing is kept,
// what is in the workspace stays, and the next setup works.
func (r *rig) setupEngineKilled(t *testing.T, engine *testenv.PrivateEngine) {
	before := r.images(t)
	for name, c := range map[string]struct {
		script, event string
		reached       func(w *work) bool
	}{
		"while it runs": {"echo waiting; sleep 600", "The setup script failed (exit code 120)", func(w *work) bool { return w.out.has("[setup] waiting\n") }},
		"while it is kept": {"dd if=/dev/urandom of=/big bs=1M count=100 2>/dev/null", "The setup failed: ", func(*work) bool {
			return len(r.commits(t)) > 0
		}},
	} {
		w := r.prepare(t, "CC1", "echo agent", setup(c.script), func(s *host.TaskSpec) { s.Resources.MemoryMB = 600 })
		checkKept := testenv.Precious(t, filepath.Join(w.Dir().Local, "workspace", "kept"))
		if err := w.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, name, func() bool { return c.reached(w) })
		engine.Kill(t)
		engine.Start(t)
		exit, err := w.Wait(deadline(t))
		if err != nil || exit.ExitCode != 120 || w.out.has("agent") {
			t.Errorf("%s: %+v, %v: %q, %q", name, exit, err, w.out.String(), w.err.String())
		}
		r.told(t, w.ID(), c.event)
		checkKept()
		if now := r.images(t); now != before || len(r.nameless(t)) > 0 {
			t.Errorf("%s: images:\n%s and without a name: %q", name, now, r.nameless(t))
		}
	}
	w := r.start(t, "CC1", "cat /made", setup("echo back > /made"))
	w.exits(t, 0)
	if !w.out.has("back\n") {
		t.Errorf("when it is back: %q, %q", w.out.String(), w.err.String())
	}
	// That the engine may have gone on with an image is believed for long.
	for _, mark := range r.commits(t) {
		long := time.Now().Add(-24 * time.Hour)
		if err := os.Chtimes(mark, long, long); err != nil {
			t.Error(err)
		}
	}
}

// commits are the marks of images that are being made.
func (r *rig) commits(t *testing.T) []string {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(r.data, "commits", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return marks
}
