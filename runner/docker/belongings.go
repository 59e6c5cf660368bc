package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Belongings lists what an installation has on the engine beside its runs and
// what they keep, a phrase each: what RemoveProbes, RemovePool,
// RemoveEgressNetwork and RemoveToolImage would remove. Nothing changes.
func (r *Runner) Belongings(ctx context.Context) ([]string, error) {
	var out []string
	probes, err := r.probesLeft(ctx)
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		out = append(out, name+" (a probe)")
	}
	errs := []error{err}
	slots, err := r.slots().list()
	for _, e := range slots {
		out = append(out, fmt.Sprintf("slot %s of the pool (sidecar, network, holder)", e.ID))
	}
	errs = append(errs, err)
	nets, err := r.runNetworks(ctx, r.EgressNetworkName())
	for _, n := range nets {
		out = append(out, n.Name+" (the egress network)")
	}
	image, ierr := r.toolImageHere(ctx)
	if image != "" {
		out = append(out, image+" (the image of sidecars and probes, unless another installation uses it)")
	}
	return out, errors.Join(append(errs, err, ierr)...)
}

// toolImageHere is the id of the tools image; "" when the engine has none.
func (r *Runner) toolImageHere(ctx context.Context) (string, error) {
	_, id, err := r.opts.Tools.Image()
	if err != nil {
		return "", fmt.Errorf("tools image: %w", err)
	}
	_, err = r.inspectImage(ctx, id)
	if errors.Is(err, runner.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("tools image: %w", err)
	}
	return id, nil
}
