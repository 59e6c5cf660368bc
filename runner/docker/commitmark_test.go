package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// ContainerCommit makes an image without a name, with the container's labels.
func (f *fakeEngine) ContainerCommit(ctx context.Context, id string, _ container.CommitOptions) (container.CommitResponse, error) {
	return container.CommitResponse{ID: "sha256:step"}, f.do(ctx, "ContainerCommit", func() error {
		c := f.find(id)
		if c == nil {
			return notFound("container: " + id)
		}
		step := image.InspectResponse{ID: "sha256:step", Config: &dockerspec.DockerOCIImageConfig{}}
		step.Config.Labels = c.Config.Labels
		f.images["sha256:step"] = step
		return nil
	})
}

// ImageList lists images without a name.
func (f *fakeEngine) ImageList(ctx context.Context, o image.ListOptions) (out []image.Summary, err error) {
	err = f.do(ctx, "ImageList", func() error {
		for name, i := range f.images {
			if strings.HasPrefix(name, "sha256:") && o.Filters.MatchKVList("label", i.Config.Labels) {
				out = append(out, image.Summary{ID: i.ID, Labels: i.Config.Labels})
			}
		}
		return nil
	})
	return out, err
}

// K23: an image that the engine made of a sandbox, and that nobody was there to
// name, has the sandbox's environment in it. It goes with the sandbox, whoever
// takes that down, and not a stranger's that looks like it.
func TestK23HalfCommittedImagesGo(t *testing.T) {
	for name, c := range map[string]struct {
		fails string // the call that fails after it was done
		says  string
		left  bool // the image is there until the sandbox goes
	}{
		"the engine's answer is lost": {"ContainerCommit", "lost", true},
		"it cannot be looked at":      {"ImageInspect sha256:step", "lost", false},
		"it cannot be removed":        {"ImageRemove sha256:step", "lost", false},
		"no layers are told":          {"", "what layers", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorld(t)
			spec := fakeSpec()
			if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			w.engine.after = func(_ int, call string) error {
				if call == c.fails {
					return errors.New("lost")
				}
				return nil
			}
			ref := AgentName(spec.RunID)
			w.engine.find(ref).Image = "sha256:agent"
			_, err := w.Commit(t.Context(), ref, "wardyn-snap/team/x", nil)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			w.engine.after = nil
			if _, left := w.engine.images["sha256:step"]; left != c.left {
				t.Errorf("left at once: %v", left)
			}
			other := image.InspectResponse{ID: "sha256:other", Config: &dockerspec.DockerOCIImageConfig{}}
			other.Config.Labels = map[string]string{labelRun: spec.RunID.String(), labelInstance: w.opts.Dir.Instance()}
			w.engine.images["sha256:other"] = other
			if err := w.KillSandbox(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			if _, left := w.engine.images["sha256:step"]; left {
				t.Error("left after the sandbox")
			}
			if _, there := w.engine.images["sha256:other"]; !there {
				t.Error("an image without the proof was removed")
			}
			if marks, _ := filepath.Glob(w.opts.Dir.Path("commits", "*")); len(marks) != 0 {
				t.Errorf("marks left: %v", marks)
			}
		})
	}
}

// K23: an engine whose asker was killed goes on with an image, and has it when
// the sandbox is gone. Until then it is a leftover of the run's, and it goes with
// the next look for those; an engine that never makes it is not waited for for good.
func TestK23HalfCommittedImagesGoThatComeLate(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	ref := AgentName(spec.RunID)
	w.engine.find(ref).Image = "sha256:agent"
	w.engine.after = func(_ int, call string) error {
		if call == "ContainerCommit" {
			return errors.New("lost")
		}
		return nil
	}
	if _, err := w.Commit(t.Context(), ref, "wardyn-snap/team/x", nil); err == nil {
		t.Fatal("the answer was not lost")
	}
	w.engine.after = nil
	late := w.engine.images["sha256:step"]
	delete(w.engine.images, "sha256:step") // not yet
	traces := func(want int) {
		t.Helper()
		found, err := w.Traces(t.Context())
		if err != nil || len(found.Runs) != want || want > 0 && !slices.Equal(found.Runs[0].Parts, []string{partImage}) {
			t.Errorf("traces %+v, %v, want %d", found, err, want)
		}
	}
	kill := func() {
		t.Helper()
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	traces(1)
	w.engine.images["sha256:step"] = late
	kill()
	if _, left := w.engine.images["sha256:step"]; left {
		t.Error("what came late is left")
	}
	traces(0)

	m, err := w.markCommit(spec.RunID)
	if err != nil {
		t.Fatal(err)
	}
	kill()
	traces(1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.SettleCommits(over); err == nil || !strings.Contains(err.Error(), ref) {
		t.Errorf("an image that may come yet: %v", err)
	}
	long := time.Now().Add(-unmadeAfter)
	if err := os.Chtimes(m.path, long, long); err != nil {
		t.Fatal(err)
	}
	if err := w.SettleCommits(t.Context()); err != nil {
		t.Error(err)
	}
	traces(0)
}

// An engine that says no has nothing in hand.
func TestK23RefusedCommitLeavesNoMark(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	ref := AgentName(spec.RunID)
	w.engine.find(ref).Image = "sha256:agent"
	w.engine.before = func(_ int, call string) error {
		if call == "ContainerCommit" {
			return fmt.Errorf("no space left on device: %w", errdefs.ErrInternal)
		}
		return nil
	}
	if _, err := w.Commit(t.Context(), ref, "wardyn-snap/team/x", nil); err == nil {
		t.Fatal("it was not refused")
	}
	if runs, err := w.committing(); err != nil || len(runs) != 0 {
		t.Errorf("marks of %v, %v", runs, err)
	}
}
