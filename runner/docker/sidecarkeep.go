package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// maxDeaths within deathWindow are not chance any more.
	maxDeaths   = 5
	deathWindow = 10 * time.Minute
	// replaceTries bounds the attempts that fail for a reason of their own,
	// replaceWindow also those that only found nobody to ask.
	replaceTries  = 4
	replaceWindow = 2 * time.Minute
)

var _ runner.SidecarKeeper = (*Runner)(nil)

// KeepSidecar waits on the sidecar's container, so that its death is known at
// once, and replaces it. Between the two nothing can pass: the sidecar's was
// the only other leg on the run's network.
func (r *Runner) KeepSidecar(ctx context.Context, ref string, heard func(runner.SidecarDeath)) error {
	run, err := RunOf(ref)
	if err != nil {
		return err
	}
	net, err := r.netOf(run)
	if err != nil {
		return err
	}
	k := keepSidecar{Runner: r, run: run, net: net, ref: ref}
	for {
		needed, err := k.needed(ctx)
		if !needed || err != nil {
			return err
		}
		cause, err := k.awaitDown(ctx)
		if err != nil {
			return err
		}
		err = k.replace(ctx, cause)
		switch {
		case err == nil:
			heard(runner.SidecarDeath{Cause: cause})
		case errors.Is(err, errNotNeeded):
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			heard(runner.SidecarDeath{Cause: cause, Err: err})
			return k.closeDown(ctx, err)
		}
	}
}

// errNotNeeded: the sandbox went away before its sidecar could be replaced.
var errNotNeeded = errors.New("the sandbox needs no sidecar any more")

// keepSidecar is the looking after one sandbox's sidecar.
type keepSidecar struct {
	*Runner
	run    uuid.UUID
	net    uuid.UUID // what sidecar and network are named after
	ref    string
	deaths []time.Time
}

// needed waits while the sandbox is there without its main process, as a parked
// one is, and reports whether there is one that a sidecar is to serve.
func (k *keepSidecar) needed(ctx context.Context) (bool, error) {
	for {
		c, err := k.lookUntilAnswered(ctx, k.ref)
		switch {
		case errors.Is(err, runner.ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		case c.HostConfig != nil && c.HostConfig.NetworkMode.IsNone():
			return false, nil
		case c.State.Running && !k.use.ending.has(k.ref):
			return true, nil
		}
		select {
		case <-time.After(maxPause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// awaitDown blocks until the engine says that the sidecar does not run, and
// tells how it ended. An engine that cannot be asked is asked again.
func (k *keepSidecar) awaitDown(ctx context.Context) (cause string, err error) {
	var pause backoff
	for {
		c, err := k.inspectContainer(ctx, ProxyName(k.net))
		switch {
		case errors.Is(err, runner.ErrNotFound):
			return "its container was removed", nil
		case err == nil && c.State != nil && !c.State.Running:
			return sidecarEnd(c.State), nil
		case err == nil && c.State != nil:
			if _, err := k.waitOnce(ctx, c.ID); err == nil {
				pause.reset()
			}
		}
		if err := pause.sleep(ctx); err != nil {
			return "", err
		}
	}
}

// sidecarEnd is how a sidecar ended, in a few words.
func sidecarEnd(s *container.State) string {
	switch {
	case s.OOMKilled:
		return "it was killed for memory"
	case s.Error != "":
		return engineText(s.Error)
	case s.Status == container.StateCreated:
		return "it was never started"
	}
	return fmt.Sprintf("exit code %d", s.ExitCode)
}

// replace makes another sidecar, and tries for a while.
func (k *keepSidecar) replace(ctx context.Context, cause string) error {
	now := time.Now()
	k.deaths = append(k.deaths, now)
	if n := len(k.deaths); n > maxDeaths && now.Sub(k.deaths[n-1-maxDeaths]) < deathWindow {
		return fmt.Errorf("it died %d times within %v, the last time with %s", maxDeaths+1, deathWindow, cause)
	}
	wctx, cancel := context.WithTimeout(ctx, replaceWindow)
	defer cancel()
	var pause backoff
	for tries := 0; ; {
		err := k.replaceOnce(wctx)
		if err == nil || errors.Is(err, errNotNeeded) {
			return err
		}
		k.opts.Log.Warn("a sidecar cannot be replaced; trying on", "run_id", k.run, "error", err)
		if !errors.Is(err, runner.ErrUnavailable) {
			tries++
		}
		if tries == replaceTries || pause.sleep(wctx) != nil {
			return err
		}
	}
}

// replaceOnce removes what is left of the old sidecar and makes one of the same
// name and address. A kill of the sandbox ends it and waits for that, as it
// does with a creation.
func (k *keepSidecar) replaceOnce(ctx context.Context) error {
	ctx, end, err := k.making.begin(ctx, k.run)
	if err != nil {
		return fmt.Errorf("%w: %w", runner.ErrUnavailable, err)
	}
	defer end()
	c, err := k.look(ctx, k.ref)
	switch {
	case errors.Is(err, runner.ErrNotFound), err == nil && (!c.State.Running || k.use.ending.has(k.ref)):
		return errNotNeeded
	case err != nil:
		return err
	}
	in, err := k.sidecarAgain(ctx, c.Config.Labels)
	if err != nil {
		return err
	}
	gate, err := k.egressNetwork(ctx)
	if err != nil {
		return err
	}
	name := ProxyName(k.net)
	if err := k.removeOwned(ctx, name); err != nil {
		return err
	}
	// Its control plane may not be back yet after a restart of this program.
	endpoint, err := k.opts.Control.Expect(k.run)
	if err != nil {
		return fmt.Errorf("%w: control socket: %w", runner.ErrUnavailable, err)
	}
	in.Control = endpoint.Dir
	id, err := k.createFromTools(ctx, name, sidecarConfig(in))
	if err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	if err := k.startSidecar(ctx, id, gate.ID, in.Host); err != nil {
		return err
	}
	return k.waitSidecar(ctx, id, endpoint.Ready)
}

// closeDown stops the main process of a sandbox without a sidecar. An engine
// that does not answer is asked again.
func (k *keepSidecar) closeDown(ctx context.Context, why error) error {
	var pause backoff
	for {
		err := k.StopProcess(ctx, k.ref, "", stopGrace)
		if err == nil || errors.Is(err, runner.ErrNotFound) {
			return fmt.Errorf("%w: %w", runner.ErrSidecarLost, why)
		}
		k.opts.Log.Error("a sandbox without its sidecar cannot be stopped; trying on", "run_id", k.run, "error", err)
		if serr := pause.sleep(ctx); serr != nil {
			return errors.Join(serr, err)
		}
	}
}
