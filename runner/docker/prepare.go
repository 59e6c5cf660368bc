package docker

import (
	"context"
	"fmt"
	"path"
	"strings"

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
	seccomp string // the task's own profile
	unwant  func() // lets the clean-up of images have the image again; nil before there is one
}

// releaseImage ends the hold on the image, once its container is there or will
// not be.
func (p *plan) releaseImage() {
	if p.unwant != nil {
		p.unwant()
		p.unwant = nil
	}
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
	denied := r.deniedBeside(host)
	if err := checkSpec(p.spec, host, p.runtime, r.opts.Max, denied); err != nil {
		return plan{}, err
	}
	if p.seccomp, err = readSeccomp(p.spec.Task); err != nil {
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
	err = r.withImage(ctx, &p)
	return p, err
}

// Denied lists the places of this host that nobody may mount into a sandbox,
// as far as the engine can be asked: its own state and socket, and this driver's state.
func (r *Runner) Denied(ctx context.Context) []string {
	host, err := r.facts(ctx)
	if err != nil {
		r.opts.Log.Warn("where the engine keeps its state is not known", "error", err)
	}
	return r.deniedBeside(host)
}

func (r *Runner) deniedBeside(host hostFacts) []string {
	out := []string{r.opts.Dir.Path(), r.opts.Dir.RunRoot()}
	if host.Root != "" {
		out = append(out, host.Root)
	}
	if socket := strings.TrimPrefix(r.opts.Endpoint, "unix://"); path.IsAbs(socket) {
		out = append(out, path.Clean(socket)) // whatever its name: who has it has the host
	}
	return out
}

// withImage fills in the image's facts and judges them.
func (r *Runner) withImage(ctx context.Context, p *plan) error {
	var src runner.ImageSource
	if p.spec.Task != nil {
		src = p.spec.Task.Image
	}
	r.startImageGC()
	var err error
	if ownImage(p.spec.Image) {
		p.image, err = r.ensureOwn(ctx, p.spec.Image, p.spec.Labels)
	} else {
		p.image, err = r.ensureImage(ctx, p.spec.Image, src)
	}
	if err != nil {
		return err
	}
	p.releaseImage()
	p.unwant = r.gc.want(p.image.ID)
	if err := checkImage(p.spec, p.image, p.host); err != nil {
		return err
	}
	if err := checkLinks(p.spec, p.image); err != nil {
		return err
	}
	if name := firstOf(p.image.digestOf(p.spec.Image), p.image.ID); name != p.spec.Image {
		src.Tell("Image %s is %s", p.spec.Image, name)
	}
	return r.images.used(p.image.ID)
}
