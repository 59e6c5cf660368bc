package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// SetupSpec says what a setup script is run in, and on behalf of whom. What it
// makes is an image.
type SetupSpec struct {
	Session   string
	Namespace string
	Script    string
	Timeout   time.Duration // 0 is none
	// Env is the script's environment, beside the image's.
	Env map[string]string
	// Caps are what root keeps while it runs.
	Caps []string
	// Learn says that the sidecar holds nobody to the policy's lists (it is told
	// apart from them), so that what comes of it is none of the policy's.
	Learn bool
	// Private makes an image of this run's alone, which nobody finds again.
	Private bool
	// Watch, when not nil, is run beside the script, with the ref of its sandbox,
	// and ends with ctx before that is taken down.
	Watch func(ctx context.Context, ref string)
	// Through, when not nil, is asked when the script is through; on an error
	// nothing of it is kept.
	Through func(ctx context.Context, ref string) error
	// Sandbox has the image, class, policy, resources and labels. Its run is
	// the build's own; of its Task only Output, Image and what CPU it has are
	// looked at.
	Sandbox runner.SandboxSpec
}

// SetupBuilder is an optional power of a Driver: setup scripts whose result is
// kept as an image.
type SetupBuilder interface {
	// FindSetup names the image of a setup and says whether it is there.
	FindSetup(ctx context.Context, s SetupSpec) (ref string, found bool, err error)
	// BuildSetup makes it. Builds of one image wait for the first, and have its
	// result. A script that fails is a *SetupError, and leaves no image.
	BuildSetup(ctx context.Context, s SetupSpec) (ref string, err error)
	// DropPrivate removes the image that a private setup made in the run, also
	// one that an earlier process left. Where there is none it is nil.
	DropPrivate(ctx context.Context, run uuid.UUID) error
}

// SetupError is a setup script that failed.
type SetupError struct{ Code int }

func (e *SetupError) Error() string {
	return fmt.Sprintf("the setup script failed (exit code %d)", e.Code)
}

// setupEngine is what setups need of an engine.
type setupEngine interface {
	// ImageID fetches an image where it is absent, and tells its id.
	ImageID(ctx context.Context, image string, src runner.ImageSource, labels map[string]string) (string, error)
	// OwnImagePresent reports whether an image of ours is there, for those labels.
	OwnImagePresent(ctx context.Context, ref string, labels map[string]string) (bool, error)
	// ListOwnImages lists the images of ours.
	ListOwnImages(ctx context.Context) ([]runner.Image, error)
	// RemoveOwnImage removes an image of ours that nobody uses.
	RemoveOwnImage(ctx context.Context, ref string) error
	// Committable is nil when a sandbox's changes can become an image.
	Committable(ctx context.Context, ref string) error
	// KeyedDigest is a digest that only this node can make.
	KeyedDigest(text string) string
}

// setupSchema is part of every setup's hash: a driver that builds differently
// has images of its own.
const setupSchema = 2

// setupPower is the engine's power to build setups.
func (d *Docker) setupPower() (setupEngine, error) {
	e, ok := d.engine.(setupEngine)
	if !ok {
		return nil, fmt.Errorf("setup: %w by this engine", runner.ErrUnsupported)
	}
	return e, nil
}

// FindSetup names the image of a setup; see SetupBuilder.
func (d *Docker) FindSetup(ctx context.Context, s SetupSpec) (ref string, found bool, err error) {
	e, err := d.setupPower()
	if err != nil {
		return "", false, err
	}
	var src runner.ImageSource
	if t := s.Sandbox.Task; t != nil {
		src = t.Image
	}
	id, err := e.ImageID(ctx, s.Sandbox.Image, src, s.Sandbox.Labels)
	if err != nil {
		return "", false, err
	}
	if ref, err = setupRef(e, s, id); err != nil || s.Private {
		return ref, false, err
	}
	found, err = e.OwnImagePresent(ctx, ref, s.Sandbox.Labels)
	return ref, found, err
}

// DropPrivate removes a private setup's image; see SetupBuilder.
func (d *Docker) DropPrivate(ctx context.Context, run uuid.UUID) error {
	e, err := d.setupPower()
	if err != nil {
		return nil // then it has made none
	}
	all, err := e.ListOwnImages(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range all {
		if strings.HasPrefix(i.Ref, setupRepository) && strings.HasSuffix(i.Ref, privateMark(run)) {
			errs = append(errs, e.RemoveOwnImage(ctx, i.Ref))
		}
	}
	return errors.Join(errs...)
}

// setupRepository holds the images of setups.
const setupRepository = "rainier-env:"

// privateMark ends the names of images that are one run's alone. No hash is as
// short.
func privateMark(run uuid.UUID) string {
	return "-" + strings.ReplaceAll(run.String(), "-", "")[:12]
}

var envRef = regexp.MustCompile(`[^a-z0-9]+`)

// setupRef is rainier-env:<env>-<hash>. The hash covers everything that shapes
// the result; it is keyed, since values are in it.
func setupRef(e setupEngine, s SetupSpec, imageID string) (string, error) {
	b := s.Sandbox
	// As bytes: what is no UTF-8 would be written as the same character, whatever
	// it is.
	var env [][]byte
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, []byte(k+"="+s.Env[k]))
	}
	text, err := json.Marshal([]any{
		setupSchema, s.Namespace, imageID, []byte(s.Script), env, slices.Sorted(slices.Values(s.Caps)),
		b.ConfinementClass, b.ProxyConfig.Policy, b.ProxyConfig.MITMHosts, s.Learn,
	})
	if err != nil {
		return "", err
	}
	env0 := strings.Trim(envRef.ReplaceAllString(strings.ToLower(s.Namespace), "-"), "-")
	ref := setupRepository + env0[:min(len(env0), 40)] + "-" + e.KeyedDigest("setup\x00"+string(text))
	if s.Private {
		ref += privateMark(b.RunID)
	}
	return ref, nil
}
