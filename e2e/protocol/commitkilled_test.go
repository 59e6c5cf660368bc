package protocol

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

// TestK23PluginKilledInACommit: the plugin is killed while the engine writes the image of
// a setup, and the engine goes on with it. Nothing of it is left when the task is
// destroyed, no task is ever started from it, and the next start makes it anew.
func TestK23PluginKilledInACommit(t *testing.T) {
	r := newRigWith(t, map[string]any{"reaper": []any{map[string]any{"grace": "5s", "period": "1s"}}})
	before := r.images(t)
	again := setup("dd if=/dev/urandom of=/big bs=1M count=192 2>/dev/null; echo whole > /made # killed in its commit")
	w := r.start(t, "CC1", "cat /made; wc -c < /big", again)
	eventually(t, "the image is being written", func() bool { return len(r.commits(t)) > 0 })
	h := w.stored(t)
	r.killPlugin(t)
	if r.images(t) != before {
		t.Fatal("the image was there before the plugin was killed, so this shows nothing")
	}
	if err := r.RecoverTask(deadline(t), h); err == nil {
		t.Error("a task whose setup died is taken up")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := r.DestroyTask(ctx, w.ID(), true); err != nil {
		t.Errorf("destroy: %v", err)
	}
	w.abandoned = true
	if now := r.images(t); now != before {
		t.Errorf("of a commit that was cut off there is an image:\n%s", now)
	}
	// The engine makes its image yet, and it goes with the next look for leftovers.
	eventually(t, "nothing of the commit is left", func() bool {
		return len(r.commits(t)) == 0 && len(r.nameless(t)) == 0
	})
	next := r.start(t, "CC1", "cat /made; wc -c < /big", again)
	next.exits(t, 0)
	if want := fmt.Sprintf("whole\n%d\n", 192<<20); !strings.HasSuffix(next.out.String(), want) || r.events.find(next.ID(), "The setup is done") == nil {
		t.Errorf("the next start: %q, %q", next.out.String(), next.err.String())
	}
	if left := r.nameless(t); len(left) > 0 {
		t.Errorf("of the commits there is left: %q", left)
	}
}

// nameless are the installation's images that have no name.
func (r *rig) nameless(t *testing.T) (ids []string) {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.engine.ImageList(deadline(t), image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"), filters.Arg("label", "wardyn.instance="+strings.TrimSpace(string(id))))})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	return ids
}
