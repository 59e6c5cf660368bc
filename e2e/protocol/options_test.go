package protocol

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	dockerregistry "github.com/docker/docker/api/types/registry"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// config adds options to a task's config.
func config(more map[string]any) func(*host.TaskSpec) {
	return func(s *host.TaskSpec) {
		for k, v := range more {
			s.Config[k] = v
		}
	}
}

// D-10a, K26, K31, bug J: every kind of mount, in sandboxes of both runtimes:
// a folder of the host that a link cannot stand in for, memory of the asked
// size, and a volume that is the namespace's.
func TestD10aEveryKindOfMount(t *testing.T) {
	shared := t.TempDir()
	r := newRigWith(t, map[string]any{"volumes": map[string]any{"named": true, "paths": []any{shared}}})
	if err := os.WriteFile(filepath.Join(shared, "model"), []byte("weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(shared, "link")); err != nil {
		t.Fatal(err)
	}
	const volume = "wardyn-vol-default_00protocol-test__"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := r.engine.VolumeRemove(ctx, volume, false); err != nil {
			t.Error(err)
		}
	})
	options := func(source string) map[string]any {
		return map[string]any{
			"volumes": []any{source + ":/work/shared:ro"},
			"mount":   []any{map[string]any{"source": "protocol-test", "target": "/kept"}},
			"mounts":  []any{map[string]any{"type": "tmpfs", "target": "/scratch", "tmpfs_options": map[string]any{"size": 8 << 20}}},
			"tmpfs":   []any{"/tmp:size=3m"},
		}
	}
	kept := ""
	each(t, func(t *testing.T, class string) {
		w := r.start(t, class, `cat /work/shared/model; touch /work/shared/x 2>/dev/null && echo written
cat /kept/* 2>/dev/null; echo `+class+` >/kept/`+class+`
df -k /scratch /tmp | awk '{print $2}'`, config(options(shared)))
		w.exits(t, 0)
		if got, want := w.out.String(), "weights"+kept+"1K-blocks\n8192\n3072\n"; got != want && got != strings.Replace(want, "1K-blocks", "1024-blocks", 1) {
			t.Errorf("the task sees %q, want %q; %s", got, want, w.err)
		}
		kept += class + "\n"
		bad := r.prepare(t, class, "true", config(options(filepath.Join(shared, "link"))))
		if err := bad.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "nothing of /etc is ever mounted") {
			t.Errorf("a link to /etc: %v", err)
		}
	})
}

// K20, K35: a sandbox of the operator's lists has what it asked for, one
// without a network has no proxy and lives, and both leave nothing.
func TestK35PowersInASandbox(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "nochroot.json")
	if err := os.WriteFile(profile, []byte(`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRigWith(t, map[string]any{
		"allow_devices": []any{"/dev/fuse"}, "allow_groups": []any{4711}, "seccomp_profiles": map[string]any{"nomkdir": profile},
		"extra_labels": []any{"task_name"},
	})
	powers := map[string]any{
		"group_add": []any{"4711"}, "security_opt": []any{"seccomp=nomkdir"}, "cpuset_cpus": "0", "oom_score_adj": 900,
	}
	want := "4711\n0\n900\nrefused\n"
	if _, err := os.Stat("/dev/fuse"); err == nil {
		powers["devices"] = []any{map[string]any{"host_path": "/dev/fuse", "container_path": "/dev/f"}}
		want += "device\n"
	}
	w := r.start(t, "CC1", `id -G | tr ' ' '\n' | grep 4711; grep Cpus_allowed_list /proc/self/status | cut -f2; cat /proc/self/oom_score_adj
mkdir /tmp/x 2>/dev/null || echo refused; [ -c /dev/f ] && echo device; `+awaitGo, config(powers))
	if c := w.containers(t)["agent"]; c.Labels["wardyn.task_name"] != "main" {
		t.Errorf("labels %v", c.Labels)
	}
	w.release(t)
	w.exits(t, 0)
	if got := w.out.String(); got != want {
		t.Errorf("the task sees %q, want %q; %s", got, want, w.err)
	}
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, `ls /sys/class/net 2>/dev/null; cat /proc/net/route | wc -l; `+awaitGo, config(map[string]any{"network_mode": "none"}))
		if list := w.containers(t); len(list) != 1 {
			t.Errorf("containers: %v", list)
		}
		eventually(t, "it prints", func() bool { return strings.Contains(w.out.String(), "\n") })
		w.release(t)
		w.exits(t, 0)
		if got := w.out.String(); strings.Contains(got, "eth") {
			t.Errorf("%s: a network is there: %q", class, got)
		}
	})
}

// Bug 9: an open exec does not hold up a stop, and ends with it.
func TestBug9StopEndsOpenExecs(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, up)
		w.isUp(t)
		var out output
		begun, ended := make(chan struct{}), make(chan error, 1)
		out.when(1, func() { close(begun) })
		go func() {
			_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"/bin/sh", "-c", "echo here; exec sleep 98765"}, Stdout: &out})
			ended <- err
		}()
		<-begun
		if err := r.StopTask(deadline(t), w.ID(), 0, ""); err != nil {
			t.Fatal(err)
		}
		w.exits(t, 137)
		<-ended
	})
}

// K30, bugs 18 and 23: a task with credentials of its own pulls from a registry
// that wants them, and says so in its events; one without gets nothing.
func TestK30TaskPullsWithItsCredentials(t *testing.T) {
	registry := testenv.Registry(t, true)
	r := newRigWith(t, map[string]any{"images": map[string]any{"allow": []any{registry + "/*"}}})
	ref := registry + "/acme/agent:1"
	auth := map[string]any{"username": testenv.RegistryUser, "password": testenv.RegistryPassword}
	r.push(t, ref)
	denied := r.prepare(t, "CC1", "true", config(map[string]any{"image": ref}))
	if err := denied.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "auth block") {
		t.Errorf("without credentials: %v", err)
	}
	w := r.start(t, "CC1", "echo pulled", config(map[string]any{"image": ref, "auth": []any{auth}}))
	w.exits(t, 0)
	for _, words := range []string{"Pulling image " + ref, "Image " + ref + " is " + registry + "/acme/agent@sha256:"} {
		r.told(t, w.ID(), words)
	}
	denied = r.prepare(t, "CC1", "true", config(map[string]any{"image": ref}))
	if err := denied.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "does not give it to this task") {
		t.Errorf("present, without credentials: %v", err)
	}
	denied = r.prepare(t, "CC1", "true", config(map[string]any{"image": "busybox:1"}))
	if err := denied.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "images.allow") {
		t.Errorf("another registry: %v", err)
	}
	if text := r.log.tail(1 << 20); strings.Contains(text, testenv.RegistryPassword) || strings.Contains(string(w.Handle().DriverState), testenv.RegistryPassword) {
		t.Error("the password is in the driver's log or state")
	}
}

// push puts an image of the test's own into a registry and takes it off the
// engine.
func (r *rig) push(t *testing.T, ref string) {
	t.Helper()
	img := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sh"}, Labels: map[string]string{"test": ref}})
	if err := r.engine.ImageTag(deadline(t), img, ref); err != nil {
		t.Fatal(err)
	}
	drop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		r.engine.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
	}
	defer drop()
	t.Cleanup(drop)
	auth, err := dockerregistry.EncodeAuthConfig(dockerregistry.AuthConfig{Username: testenv.RegistryUser, Password: testenv.RegistryPassword})
	if err != nil {
		t.Fatal(err)
	}
	rc, err := r.engine.ImagePush(deadline(t), ref, image.PushOptions{RegistryAuth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if _, err := io.Copy(io.Discard, rc); err != nil {
		t.Fatal(err)
	}
}
