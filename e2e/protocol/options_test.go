package protocol

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	each(t, r, func(t *testing.T, class string) {
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
	each(t, r, func(t *testing.T, class string) {
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
