package docker

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// plan is a sandbox whose every question is answered and of which nothing
// exists yet.
type plan struct {
	spec    runner.SandboxSpec
	class   types.ConfinementClass
	runtime string
	host    hostFacts
	image   imageFacts
	tools   string // id of the tools image
	record  string // host path of wardyn-rec
}

// networked: the sandbox has a network, and hence a sidecar.
func (p plan) networked() bool { return p.spec.Task == nil || !p.spec.Task.NoNetwork }

// prepare judges the spec and fetches its image. Nothing is made.
func (r *Runner) prepare(ctx context.Context, spec runner.SandboxSpec) (plan, error) {
	host, err := r.facts(ctx)
	if err != nil {
		return plan{}, err
	}
	p := plan{spec: spec, host: host, class: spec.ConfinementClass}
	if p.class == "" {
		p.class = types.CC1
	}
	if p.runtime, err = resolveRuntime(p.class, host, r.opts.Runtimes[p.class]); err != nil {
		return plan{}, err
	}
	p.spec.Resources = withDefaults(spec.Resources, r.opts.Max)
	denied := []string{host.Root, r.opts.Dir.Path(), r.opts.Dir.RunRoot()}
	if err := checkSpec(p.spec, host, p.runtime, r.opts.Max, denied); err != nil {
		return plan{}, err
	}
	if p.record, err = r.opts.Tools.RecorderPath(); err != nil {
		return plan{}, fmt.Errorf("tools: %w", err)
	}
	if p.tools, err = r.toolImage(ctx); err != nil {
		return plan{}, err
	}
	if err := r.requireClass(ctx, subject{p.class, p.runtime}, host); err != nil {
		return plan{}, err
	}
	return p, r.withImage(ctx, &p)
}

// withImage fills in the image's facts and judges them.
func (r *Runner) withImage(ctx context.Context, p *plan) error {
	var err error
	if p.image, err = r.ensureImage(ctx, p.spec.Image); err != nil {
		return err
	}
	return checkImage(p.spec, p.image, p.host)
}
