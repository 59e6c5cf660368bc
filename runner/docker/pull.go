package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Limits of a pull when the host sets none.
const (
	// defaultPullTimeout bounds how long one task waits for its image.
	defaultPullTimeout = 15 * time.Minute
	// defaultPullActivity ends a pull of which the engine has said nothing for
	// that long.
	defaultPullActivity = 2 * time.Minute
)

// pullReport is how often waiters are told how far a pull is.
const pullReport = 30 * time.Second

// pulls are the downloads under way: one for each reference and credentials,
// whoever waits for it. Other credentials are another download, or one job
// would get what another's credentials have opened.
type pulls struct {
	mu sync.Mutex
	at map[string]*download
}

// download is one pull, with those who wait for it.
type download struct {
	ref    string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err stands
	err    error

	mu       sync.Mutex
	waiters  map[*runner.ImageSource]bool
	progress pullProgress
}

// errUnwanted ends a download that nobody waits for any more.
var errUnwanted = errors.New("nobody waits for it any more")

// Pull fetches an image without a task's options. Callers that want the same
// one share one pull, which goes on while one of them waits.
func (r *Runner) Pull(ctx context.Context, ref string) error {
	return r.pullFor(ctx, ref, runner.ImageSource{})
}

// pullFor fetches an image with a task's credentials, or the host's.
func (r *Runner) pullFor(ctx context.Context, ref string, src runner.ImageSource) error {
	auth, err := r.registryAuth(ctx, ref, src)
	if err != nil {
		return err
	}
	src.Tell("Pulling image %s", ref)
	err = r.waitPull(ctx, ref, auth, src)
	if err != nil && auth != nil && src.AuthSoftFail && refusesCredentials(err) {
		src.Tell("The registry of image %s does not accept the credentials; trying without", ref)
		auth = nil
		err = r.waitPull(ctx, ref, nil, src)
	}
	if err != nil {
		return err
	}
	// What was just given need not be asked for again when the task restarts.
	if f, err := r.inspectImage(ctx, ref); err == nil && f.digestOf(ref) != "" {
		r.admitted.put(pullKey(f.digestOf(ref), auth), time.Now())
	}
	return nil
}

// waitPull waits for a pull, its own or one under way, for as long as the task
// may wait.
func (r *Runner) waitPull(ctx context.Context, ref string, auth *registry.AuthConfig, src runner.ImageSource) error {
	limit := cmp.Or(src.Timeout, r.opts.Images.pullTimeout())
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d := r.joinPull(ref, auth, &src)
	select {
	case <-d.done:
		return d.err
	case <-limited.Done():
	}
	far := r.leavePull(d, auth, &src)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return fmt.Errorf("pull %s: not done within %v, %s (option image_pull_timeout): %w", ref, limit, far, runner.ErrUnavailable)
}

// joinPull adds a waiter to the download of ref, which it begins if need be.
func (r *Runner) joinPull(ref string, auth *registry.AuthConfig, src *runner.ImageSource) *download {
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	key := pullKey(ref, auth)
	if d := r.pulls.at[key]; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiters[src] = true
		return d
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	d := &download{
		ref: ref, cancel: cancel, done: make(chan struct{}),
		waiters: map[*runner.ImageSource]bool{src: true},
	}
	if r.pulls.at == nil {
		r.pulls.at = map[string]*download{}
	}
	r.pulls.at[key] = d
	go func() {
		defer cancel(nil)
		err := r.download(ctx, d, auth)
		r.pulls.mu.Lock()
		if r.pulls.at[key] == d {
			delete(r.pulls.at, key)
		}
		r.pulls.mu.Unlock()
		d.err = err
		close(d.done)
	}()
	return d
}

// leavePull takes a waiter away, and with the last one the download. It says
// how far the download was.
func (r *Runner) leavePull(d *download, auth *registry.AuthConfig, src *runner.ImageSource) string {
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiters, src)
	if key := pullKey(d.ref, auth); len(d.waiters) == 0 && r.pulls.at[key] == d {
		delete(r.pulls.at, key)
		d.cancel(errUnwanted)
	}
	return d.progress.String()
}

// download runs until the engine is done, has said nothing for too long, or
// nobody waits any more.
func (r *Runner) download(ctx context.Context, d *download, auth *registry.AuthConfig) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := r.opts.Images.pullActivity()
	stalled := fmt.Errorf("no progress for %v (plugin option pull_activity_timeout): %w", quiet, runner.ErrUnavailable)
	watch := time.AfterFunc(quiet, func() { cancel(stalled) })
	defer watch.Stop()
	report := time.NewTicker(pullReport)
	defer report.Stop()
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-report.C:
				d.tell()
			case <-over:
				return
			}
		}
	}()
	encoded, err := encodeAuth(auth)
	if err != nil {
		return err
	}
	rc, err := r.api.ImagePull(ctx, d.ref, image.PullOptions{RegistryAuth: encoded})
	if err == nil {
		defer rc.Close()
		err = followPull(rc, func(m pullMessage) { watch.Reset(quiet); d.note(m) })
	}
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, stalled) || errors.Is(cause, errUnwanted)) {
		err = cause
	}
	return pullError(d.ref, err, auth != nil)
}

func (d *download) note(m pullMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.note(m)
}

// tell says to everyone who waits how far the pull is.
func (d *download) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiters {
		w.Tell("Pulling image %s: %s", d.ref, &d.progress)
	}
}
