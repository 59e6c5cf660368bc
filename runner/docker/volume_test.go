package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K26: a volume is adopted only by those it was made for.
func TestK26VolumesAreOwned(t *testing.T) {
	w := newFakeWorld(t)
	labels := map[string]string{"wardyn.namespace": "blue", "note": "first"}
	if err := w.CreateVolume(t.Context(), "v", labels); err != nil {
		t.Fatal(err)
	}
	if err := w.CreateVolume(t.Context(), "v", map[string]string{"wardyn.namespace": "blue", "note": "second"}); err != nil {
		t.Errorf("adopting one's own: %v", err)
	}
	if err := w.CreateVolume(t.Context(), "v", map[string]string{"wardyn.namespace": "red"}); !errors.Is(err, runner.ErrExists) {
		t.Errorf("another namespace: %v", err)
	}
	w.engine.volumes["stranger"] = volume.Volume{Name: "stranger", Labels: w.engine.volumes["v"].Labels}
	if err := w.CreateVolume(t.Context(), "stranger", labels); !errors.Is(err, runner.ErrExists) {
		t.Errorf("a copied proof: %v", err)
	}
	if err := w.RemoveVolume(t.Context(), "stranger"); !errors.Is(err, runner.ErrExists) {
		t.Errorf("removing a stranger's: %v", err)
	}
	for range 2 {
		if err := w.RemoveVolume(t.Context(), "v"); err != nil {
			t.Error(err)
		}
	}
	if len(w.engine.volumes) != 1 {
		t.Errorf("left: %v", w.engine.volumes)
	}
}

// goesAway removes something as the first entry is written: a folder that is still
// to be read, and a file and a link that have been listed.
type goesAway struct {
	io.Writer
	dir string
}

func (g *goesAway) Write(b []byte) (int, error) {
	for _, name := range []string{"b", "c", "d"} {
		if err := os.RemoveAll(filepath.Join(g.dir, name)); err != nil {
			return 0, err
		}
	}
	return g.Writer.Write(b)
}

// An export of a workspace in which somebody works has what is there all along.
func TestExportWhileFilesGo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b/in", "c", "e"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("text"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var b bytes.Buffer
	w := tar.NewWriter(&goesAway{&b, dir})
	if err := errors.Join(exportTree(t.Context(), w, root), w.Close()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if !slices.Equal(names, []string{"a", "e"}) {
		t.Errorf("exported %q", names)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exportTree(over, w, root); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestListSandboxes(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	spec.Labels = map[string]string{"wardyn.session": "s1"}
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		running, paused   bool
		status            container.ContainerState
		running2, frozen2 bool
	}{
		{false, false, container.StateCreated, false, false},
		{true, false, container.StateRunning, true, false},
		{true, true, container.StateRunning, true, true},
		{false, false, container.StateExited, false, false},
	} {
		s := w.engine.find(AgentName(spec.RunID)).State
		s.Running, s.Paused, s.Status = tc.running, tc.paused, tc.status
		l, err := w.ListSandboxes(t.Context())
		if err != nil || len(l) != 1 {
			t.Fatalf("%v, %v", l, err)
		}
		if got := l[0]; got.Ref != AgentName(spec.RunID) || got.Labels["wardyn.session"] != "s1" || got.Running != tc.running2 || got.Suspended != tc.frozen2 {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}
