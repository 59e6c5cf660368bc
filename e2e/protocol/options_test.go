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
