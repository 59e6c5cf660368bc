package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/google/uuid"
)

// On the way to an image of ours there is one without a name, which has the
// sandbox's environment in its metadata. Whoever asked for it may be gone when
// the engine has made it, and so may the sandbox: an engine goes on with what it
// was asked for. A mark in the data dir says that there may be one, until it is
// certain that there is none; the run's teardown looks for marks, and so does
// who looks for leftovers of runs.

// unmadeAfter is how long an engine is given credit for going on with an image
// that nobody waits for.
const unmadeAfter = 2 * commitTimeout

// commitMark is one image that is being made: a file named after its run, empty
// until the engine has told the image's id.
type commitMark struct{ path string }

func (r *Runner) commitDir() string { return r.opts.Dir.Path("commits") }

// markCommit sets a mark.
func (r *Runner) markCommit(run uuid.UUID) (commitMark, error) {
	if err := os.Mkdir(r.commitDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return commitMark{}, err
	}
	m := commitMark{filepath.Join(r.commitDir(), run.String()+"."+rand.Text())}
	return m, os.WriteFile(m.path, nil, 0o600)
}

// made notes that the engine is through with it.
func (m commitMark) made(id string) error { return os.WriteFile(m.path, []byte(id), 0o600) }

// done takes the mark away.
func (m commitMark) done() error {
	if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// pending reports whether the engine may have the image still to make.
func (m commitMark) pending(now time.Time) (bool, error) {
	fi, err := os.Stat(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && fi.Size() == 0 && now.Sub(fi.ModTime()) < unmadeAfter, err
}

// commitMarks are a run's marks.
func (r *Runner) commitMarks(run uuid.UUID) (out []commitMark, err error) {
	files, err := filepath.Glob(filepath.Join(r.commitDir(), run.String()+".*"))
	for _, f := range files {
		out = append(out, commitMark{f})
	}
	return out, err
}

// committing are the runs that have marks.
func (r *Runner) committing() (out []uuid.UUID, err error) {
	files, err := os.ReadDir(r.commitDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name(), ".")
		if run, err := uuid.Parse(name); err == nil && !slices.Contains(out, run) {
			out = append(out, run)
		}
	}
	return out, err
}

// dropHalfCommitted removes images without a name that commits of a run left,
// where there is a mark of one. The mark of an image that may still come stays.
func (r *Runner) dropHalfCommitted(ctx context.Context, run uuid.UUID) error {
	marks, err := r.commitMarks(run)
	if err != nil || len(marks) == 0 {
		return err
	}
	// Asked before the engine is: what it makes in between is not missed.
	var over []commitMark
	for _, m := range marks {
		pending, err := m.pending(time.Now())
		if err != nil {
			return err
		}
		if !pending {
			over = append(over, m)
		}
	}
	found, err := r.dropNameless(ctx, run)
	if err != nil {
		return err
	}
	if found >= len(marks) {
		over = marks // each has had its image
	}
	var errs []error
	for _, m := range over {
		errs = append(errs, m.done())
	}
	return errors.Join(errs...)
}

// dropNameless removes a run's images without a name, and counts them.
func (r *Runner) dropNameless(ctx context.Context, run uuid.UUID) (n int, err error) {
	ctx, cancel := call(ctx)
	defer cancel()
	left, err := r.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"), filters.Arg("label", labelRun+"="+run.String()))})
	if err != nil {
		return 0, wrap("list images", err)
	}
	var errs []error
	for _, i := range left {
		if r.owns(AgentName(run), i.Labels) {
			n++
			errs = append(errs, r.dropStep(i.ID))
		}
	}
	return n, errors.Join(errs...)
}

// SettleCommits removes what the engine makes yet of images whose sandboxes are
// gone, for who takes the installation down and is not there to look later. The
// error names what may still come when ctx ends.
func (r *Runner) SettleCommits(ctx context.Context) error {
	for {
		runs, err := r.committing()
		if err != nil || len(runs) == 0 {
			return err
		}
		for _, run := range runs {
			err = errors.Join(err, r.dropHalfCommitted(ctx, run))
		}
		select {
		case <-time.After(removalPoll):
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("the engine may still be making an image of %s, which nobody asks for any more; look again when it has: %w", AgentName(runs[0]), ctx.Err()))
		}
	}
}
