package runnertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// The verbs below are what a session driver wants of its engine beyond the
// runner contract.

// Start runs a sandbox's main process again after Park; on a running one it is nil.
func (f *Fake) Start(ctx context.Context, ref string) error {
	s, err := f.begin(ctx, "Start", ref)
	if err != nil {
		return err
	}
	if s.mustRun() == nil {
		return nil
	}
	return s.startMain(ctx)
}

// Park stops a sandbox and keeps it; a frozen one is thawed first.
func (f *Fake) Park(ctx context.Context, ref string) error {
	s, err := f.begin(ctx, "Park", ref)
	if err != nil {
		return err
	}
	return s.stop(ctx, "", f.opts.Grace)
}

// Commit makes an image named tag of a sandbox.
func (f *Fake) Commit(ctx context.Context, ref, tag string, _ []string) (string, error) {
	if _, err := f.begin(ctx, "Commit", ref); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[tag] = true
	return tag, nil
}

// Pull makes an image present.
func (f *Fake) Pull(ctx context.Context, image string) error {
	if err := f.enter(ctx, "Pull", image); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[image] = true
	return nil
}

// namespaceLabel says whose a volume is.
const namespaceLabel = "wardyn.namespace"

// CreateVolume makes a volume; one of the same namespace is adopted as it is.
func (f *Fake) CreateVolume(ctx context.Context, name string, labels map[string]string) error {
	if err := f.enter(ctx, "CreateVolume", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have, ok := f.volumes[name]
	if ok && have[namespaceLabel] != labels[namespaceLabel] {
		return fmt.Errorf("volume %s: %w and belongs to namespace %q", name, runner.ErrExists, have[namespaceLabel])
	}
	if !ok {
		f.volumes[name] = maps.Clone(labels)
	}
	return nil
}

// VolumePresent reports whether a volume exists.
func (f *Fake) VolumePresent(ctx context.Context, name string) (bool, error) {
	if err := f.enter(ctx, "VolumePresent", name); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.volumes[name]
	return ok, nil
}

// RemoveVolume removes a volume that no sandbox has mounted.
func (f *Fake) RemoveVolume(ctx context.Context, name string) error {
	if err := f.enter(ctx, "RemoveVolume", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref, s := range f.sandboxes {
		if s.mounts(name) {
			return fmt.Errorf("volume %s: %w: sandbox %s has it mounted", name, runner.ErrPrecondition, ref)
		}
	}
	delete(f.volumes, name)
	return nil
}

func (s *sandbox) mounts(volume string) bool {
	return s.spec.Task != nil && slices.ContainsFunc(s.spec.Task.Mounts, func(m runner.TaskMount) bool {
		return m.Volume == volume
	})
}

// ListSandboxes lists them all, sorted by ref.
func (f *Fake) ListSandboxes(ctx context.Context) ([]runner.Listed, error) {
	if err := f.enter(ctx, "ListSandboxes", ""); err != nil {
		return nil, err
	}
	f.mu.Lock()
	all := slices.SortedFunc(maps.Values(f.sandboxes), func(a, b *sandbox) int { return cmp.Compare(a.ref, b.ref) })
	f.mu.Unlock()
	out := make([]runner.Listed, 0, len(all))
	for _, s := range all {
		s.mu.Lock()
		out = append(out, runner.Listed{Ref: s.ref, Labels: s.labels(), Running: s.running(), Suspended: s.shut})
		s.mu.Unlock()
	}
	return out, nil
}
