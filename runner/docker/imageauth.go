package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker/regauth"
)

// acceptance is how long a registry's word that an image may be had holds.
const acceptance = 12 * time.Hour

// admissions remembers which credentials a registry accepted for which digest.
// Keys are digests of both: no credential is kept.
type admissions struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (a *admissions) holds(key string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.at[key]
	return ok && now.Sub(t) < acceptance
}

func (a *admissions) put(key string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[string]time.Time{}
	}
	a.at[key] = now
}

// admit decides whether a task may use an image that is present. One that came
// from a registry is used only when that registry would give it to this task,
// too: otherwise a job could have what another job's credentials have pulled.
// An image of no registry is the operator's and for everyone.
func (r *Runner) admit(ctx context.Context, ref string, f imageFacts, src runner.ImageSource) error {
	digest := f.digestOf(ref)
	if digest == "" || r.opts.Images.TrustPresent {
		return nil
	}
	auth, err := r.registryAuth(ctx, ref, src)
	if err != nil {
		return err
	}
	err = r.askRegistry(ctx, digest, auth)
	if err != nil && auth != nil && src.AuthSoftFail && refusesCredentials(err) {
		return r.askRegistry(ctx, digest, nil)
	}
	return err
}

// askRegistry asks the registry of a digest whether it may be had, unless it
// said so lately.
func (r *Runner) askRegistry(ctx context.Context, digest string, auth *registry.AuthConfig) error {
	key := pullKey(digest, auth)
	if r.admitted.holds(key, time.Now()) {
		return nil
	}
	encoded, err := encodeAuth(auth)
	if err != nil {
		return err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	_, err = r.api.DistributionInspect(ctx, digest, encoded)
	switch {
	case err == nil:
		r.admitted.put(key, time.Now())
		return nil
	case refusesCredentials(err), errdefs.IsNotFound(err):
		return fmt.Errorf("image %s is on this node, and its registry does not give it to this task; put credentials in the task's auth block: %w: %w",
			digest, runner.ErrDenied, err)
	}
	return fmt.Errorf("image %s is on this node, and its registry cannot be asked whether this task may have it (the plugin option images.trust_present does not ask): %w: %w",
		digest, runner.ErrUnavailable, err)
}

// registryAuth is what to show a reference's registry: the task's own
// credentials, else the host's, else nothing.
func (r *Runner) registryAuth(ctx context.Context, ref string, src runner.ImageSource) (*registry.AuthConfig, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w: %w", ref, runner.ErrInvalid, err)
	}
	key := regauth.Key(named)
	if a := src.Auth; a != nil {
		return &registry.AuthConfig{Username: a.Username, Password: a.Password, ServerAddress: firstOf(a.Server, key)}, nil
	}
	a, err := r.opts.Images.Auth.Find(ctx, key)
	if err != nil && src.AuthSoftFail {
		src.Tell("%s; trying without", err)
		return nil, nil
	}
	return a, err
}

// encodeAuth is a credential as the engine takes it; "" for none.
func encodeAuth(a *registry.AuthConfig) (string, error) {
	if a == nil {
		return "", nil
	}
	return registry.EncodeAuthConfig(*a)
}

// pullKey tells apart what is pulled with different credentials, without
// keeping them.
func pullKey(ref string, a *registry.AuthConfig) string {
	if a == nil {
		return ref
	}
	h := sha256.New()
	for _, s := range []string{a.Username, a.Password, a.Auth, a.IdentityToken, a.RegistryToken, a.ServerAddress} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return ref + " " + hex.EncodeToString(h.Sum(nil))
}

// refusals are how registries, and engines that pass their words on without a
// status, say that credentials are missing or wrong.
var refusals = []string{"unauthorized", "authentication required", "no basic auth", "access denied", "access to the resource is denied", "forbidden"}

func refusesCredentials(err error) bool {
	if errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errors.Is(err, runner.ErrDenied) {
		return true
	}
	text := strings.ToLower(err.Error())
	for _, w := range refusals {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// pullError names the step, and the fix where credentials were refused.
func pullError(ref string, err error, withAuth bool) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, runner.ErrUnavailable), errors.Is(err, errUnwanted):
	case refusesCredentials(err) && withAuth:
		return fmt.Errorf("pull %s: the registry does not accept the credentials: %w: %w", ref, runner.ErrDenied, err)
	case refusesCredentials(err):
		return fmt.Errorf("pull %s: no such image, or its registry wants credentials; put them in the task's auth block or the plugin's: %w: %w", ref, runner.ErrDenied, err)
	}
	return explained(wrap("pull "+ref, err), asked{image: ref}, pullWords)
}
