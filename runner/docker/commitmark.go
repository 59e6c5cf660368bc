package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/google/uuid"
)

// On the way to an image of ours there is one without a name, which has the
// sandbox's environment in its metadata. Whoever asked for it may be gone when
// the engine has made it. A mark in the data dir says that there may be one,
// until it is certain that there is none; the run's teardown looks for marks.

// commitMarks matches a run's marks.
func (r *Runner) commitMarks(run uuid.UUID) string {
	return r.opts.Dir.Path("commits", run.String()+".*")
}

// markCommit sets a mark, which done takes away.
func (r *Runner) markCommit(run uuid.UUID) (done func() error, err error) {
	dir := r.opts.Dir.Path("commits")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	mark := filepath.Join(dir, run.String()+"."+rand.Text())
	return func() error { return os.Remove(mark) }, os.WriteFile(mark, nil, 0o600)
}

// dropHalfCommitted removes images without a name that commits of a run left,
// where there is a mark of one.
func (r *Runner) dropHalfCommitted(ctx context.Context, run uuid.UUID) error {
	marks, err := filepath.Glob(r.commitMarks(run))
	if err != nil || len(marks) == 0 {
		return err
	}
	lctx, cancel := call(ctx)
	defer cancel()
	left, err := r.api.ImageList(lctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"), filters.Arg("label", labelRun+"="+run.String()))})
	if err != nil {
		return wrap("list images", err)
	}
	var errs []error
	for _, i := range left {
		if r.owns(AgentName(run), i.Labels) {
			errs = append(errs, r.dropStep(i.ID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, m := range marks {
		errs = append(errs, os.Remove(m))
	}
	return errors.Join(errs...)
}
