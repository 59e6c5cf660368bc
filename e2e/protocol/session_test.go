package protocol

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestSessions: what runs before a command and what outlives it.
func TestSessions(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		t.Run("K7 stages", func(t *testing.T) { r.stages(t, class) })
		t.Run("K7 stop during init", func(t *testing.T) { r.stopDuringInit(t, class) })
		t.Run("D-10 default workspace", func(t *testing.T) { r.defaultWorkspace(t, class) })
		t.Run("K39 kept workspace and home", func(t *testing.T) { r.keptVolumes(t, class) })
	})
}

// with changes a task's config.
func with(more map[string]any) func(*host.TaskSpec) {
	return func(s *host.TaskSpec) {
		for k, v := range more {
			s.Config[k] = v
		}
	}
}

func block(kv ...string) []any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return []any{m}
}

func asUser(user string) func(*host.TaskSpec) { return func(s *host.TaskSpec) { s.User = user } }

func (r *rig) stages(t *testing.T, class string) {
	for _, c := range []struct {
		init, timeout string
		code          int
		out, event    string
	}{
		{"id -u; echo ready > /tmp/ready; sleep 600 &", "1m", 5, "[init] 1000\nready\n", ""},
		{"echo trying; exit 3", "1m", 122, "[init] trying\n", "The init script failed (exit code 122)"},
		{"echo on; sleep 600", "5s", 122, "[init] on\n", "The init script failed (exit code 122)"},
	} {
		w := r.start(t, class, "cat /tmp/ready; exit 5", asUser("1000"), with(map[string]any{"init": block("script", c.init, "timeout", c.timeout)}))
		w.exits(t, c.code)
		if w.out.String() != c.out {
			t.Errorf("%q: output %q, want %q\n%s", c.init, w.out.String(), c.out, w.err.String())
		}
		if c.event != "" {
			r.told(t, w.ID(), c.event)
		}
	}
}

func (r *rig) stopDuringInit(t *testing.T, class string) {
	w := r.start(t, class, "echo agent", with(map[string]any{"init": block("script", "echo waiting; sleep 600")}))
	eventually(t, "init runs", func() bool { return w.out.has("[init] waiting\n") })
	if err := r.StopTask(deadline(t), w.ID(), limit, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	w.exits(t, 143)
	// A sandbox that somebody else kills has not come to its command either, and
	// what was in the workspace is as it was.
	k := r.start(t, class, "echo agent", with(map[string]any{"init": block("script", "echo work > /workspace/file; echo waiting; sleep 600")}))
	eventually(t, "init runs", func() bool { return k.out.has("[init] waiting\n") })
	if err := r.engine.ContainerKill(deadline(t), k.container(t), "KILL"); err != nil {
		t.Fatal(err)
	}
	k.exits(t, 137)
	if w.out.has("agent") || k.out.has("agent") {
		t.Error("the command ran after a stop or kill")
	}
	if b, err := os.ReadFile(filepath.Join(k.Dir().Local, "workspace", "file")); string(b) != "work\n" {
		t.Errorf("the workspace: %q, %v", b, err)
	}
}

// Files in the default workspace are the task's user's on both sides.
func (r *rig) defaultWorkspace(t *testing.T, class string) {
	w := r.start(t, class, "echo work > /workspace/file && stat -c %u /workspace/file", asUser("1000"))
	w.exits(t, 0)
	fi, err := os.Stat(filepath.Join(w.Dir().Local, "workspace", "file"))
	if err != nil || w.out.String() != "1000\n" {
		t.Fatalf("%v, output %q, %q", err, w.out.String(), w.err.String())
	}
	if uid := fi.Sys().(*syscall.Stat_t).Uid; uid != 1000 {
		t.Errorf("on the host it is uid %d's", uid)
	}
}

// kept is the command line of the installation.
func (r *rig) kept(t *testing.T, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin.hcl")
	text := "data_dir = \"" + r.data + "\"\nendpoint = \"" + r.endpoint + "\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(deadline(t), r.binary, append([]string{args[0], "-plugin-config", file}, args[1:]...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s: %s", strings.Join(args, " "), errs.String())
	}
	return string(out), err
}

// goesOnlyWithKept: purge lists something among what it would remove exactly
// when it is asked to take along what outlives tasks.
func (r *rig) goesOnlyWithKept(t *testing.T, what string) {
	t.Helper()
	all, err := r.kept(t, "purge", "-dry-run", "-kept")
	if err != nil || !strings.Contains(all, what) {
		t.Errorf("purge -dry-run -kept lacks %q: %v\n%s", what, err, all)
	}
	runs, err := r.kept(t, "purge", "-dry-run")
	if err != nil || strings.Contains(runs, what) {
		t.Errorf("purge -dry-run has %q: %v\n%s", what, err, runs)
	}
}

func (r *rig) keptVolumes(t *testing.T, class string) {
	name := "ws-" + strings.ToLower(class)
	kept := with(map[string]any{
		"workspace": block("volume", name), "home": block("volume", name, "path", "/home/somebody"),
	})
	const count = "echo x >> log; wc -l < log; echo x >> /home/somebody/n; wc -l < /home/somebody/n; "
	one := r.start(t, class, count+awaitGo+"kill -9 $$", asUser("1000"), kept)
	eventually(t, "the first wrote", func() bool { return one.out.has("1\n1\n") })

	// One at a time; the refusal is one that passes.
	two := r.prepare(t, class, count, asUser("1000"), kept)
	if err := two.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "is in use by session") || !host.IsRecoverable(err) {
		t.Errorf("a second user of the workspace: %v", err)
	}
	if _, err := r.kept(t, "workspaces", "remove", "workspace:default/"+name); err == nil {
		t.Error("a workspace in use was removed")
	}
	one.release(t)
	one.exits(t, 137)
	if err := r.DestroyTask(deadline(t), one.ID(), true); err != nil {
		t.Fatal(err)
	}
	three := r.start(t, class, count, asUser("1000"), kept)
	three.exits(t, 0)
	if three.out.String() != "2\n2\n" {
		t.Errorf("after a crash: %q, %q", three.out.String(), three.err.String())
	}
	if err := r.DestroyTask(deadline(t), three.ID(), true); err != nil {
		t.Fatal(err)
	}
	r.keptByHand(t, name)
}

// keptByHand lists, exports and removes what the tasks left.
func (r *rig) keptByHand(t *testing.T, name string) {
	out, err := r.kept(t, "workspaces", "list", "-json")
	if err != nil {
		t.Fatal(err, out)
	}
	var items []struct{ ID, Kind, Namespace, Name string }
	if err := json.Unmarshal([]byte(out), &items); err != nil {
		t.Fatal(err, out)
	}
	found := 0
	for _, it := range items {
		if it.Namespace == "default" && it.Name == name {
			found++
		}
	}
	if found != 2 {
		t.Errorf("list: %s", out)
	}
	r.goesOnlyWithKept(t, "(workspace default/"+name+")")
	r.goesOnlyWithKept(t, "(home default/"+name+")")
	out, err = r.kept(t, "workspaces", "export", "workspace:default/"+name)
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(strings.NewReader(out))
	h, err := tr.Next()
	b, _ := io.ReadAll(tr)
	if err != nil || h.Name != "log" || h.Uid != 1000 || string(b) != "x\nx\n" {
		t.Errorf("export: %+v, %q, %v", h, b, err)
	}
	if _, err := r.kept(t, "workspaces", "remove", "workspace:default/"+name[:4]); err == nil {
		t.Error("a part of a name removed something")
	}
	for _, kind := range []string{"workspace", "home"} {
		if _, err := r.kept(t, "workspaces", "remove", kind+":default/"+name); err != nil {
			t.Error(err)
		}
	}
	if out, _ := r.kept(t, "workspaces"); strings.Contains(out, "default/"+name) {
		t.Errorf("after the removal: %s", out)
	}
}
