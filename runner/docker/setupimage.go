package docker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// setupRepository holds the images that setup scripts made.
const setupRepository = "rainier-env:"

// justUsed is how long an image of a setup stays after it was found or made,
// whatever the limits say: longer than a start takes from there to its
// container, which then holds it.
const justUsed = createTimeout + 5*time.Minute

// ImageID is the id of the image that a task would start from, which is fetched
// where it is absent.
func (r *Runner) ImageID(ctx context.Context, ref string, src runner.ImageSource, labels map[string]string) (string, error) {
	if ownImage(ref) {
		f, err := r.ensureOwn(ctx, ref, labels)
		return f.ID, err
	}
	f, err := r.ensureImage(ctx, ref, src)
	return f.ID, err
}

// OwnImagePresent reports whether an image of ours is there for these labels. It counts
// as a use of it.
func (r *Runner) OwnImagePresent(ctx context.Context, ref string, labels map[string]string) (bool, error) {
	_, err := r.ensureOwn(ctx, ref, labels)
	if errors.Is(err, runner.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		r.noteUse(ref)
	}
	return err == nil, err
}

// KeyedDigest is a digest of text that only this installation can make.
func (r *Runner) KeyedDigest(text string) string { return r.opts.Dir.Proof(text) }

// usePath is the file whose time says when an image of ours was last used.
func (r *Runner) usePath(ref string) string {
	return r.opts.Dir.Path("used", strings.NewReplacer("/", "+", ":", "@").Replace(ref))
}

func (r *Runner) noteUse(ref string) {
	p := r.usePath(ref)
	err := os.Mkdir(filepath.Dir(p), 0o700)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = os.WriteFile(p, nil, 0o600)
	}
	if now := time.Now(); err == nil {
		err = os.Chtimes(p, now, now)
	}
	if err != nil {
		r.opts.Log.Warn("the use of an image is not noted", "image", ref, "error", err)
	}
}

// lastUse is when an image of ours was last started from, or made.
func (r *Runner) lastUse(i runner.Image) time.Time {
	if fi, err := os.Stat(r.usePath(i.Ref)); err == nil && fi.ModTime().After(i.Created) {
		return fi.ModTime()
	}
	return i.Created
}

// TrimSetupImages removes images of setups that nobody uses: those not used
// for longer than age, and then the ones used longest ago until all together
// take no more than most bytes. Zero is no limit. What was found or made just
// now may be about to be started from, and stays.
func (r *Runner) TrimSetupImages(ctx context.Context, most int64, age time.Duration) error {
	all, err := r.ListOwnImages(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i runner.Image) bool { return !strings.HasPrefix(i.Ref, setupRepository) })
	errs := []error{r.DropReplaced(ctx, justUsed)}
	for _, i := range expendable(all, most, age, time.Now()) {
		if time.Since(r.lastUse(i)) < justUsed {
			continue // somebody found it meanwhile
		}
		err := r.RemoveOwnImage(ctx, i.Ref)
		if errors.Is(err, runner.ErrPrecondition) {
			continue // somebody started from it meanwhile
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// expendable chooses which images go.
func expendable(all []runner.Image, most int64, age time.Duration, now time.Time) []runner.Image {
	all = slices.SortedFunc(slices.Values(all), func(a, b runner.Image) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Ref, b.Ref)) })
	var total int64
	for _, i := range all {
		total += i.Bytes
	}
	var out []runner.Image
	for _, i := range all {
		old := age > 0 && now.Sub(i.Used) > age
		if len(i.Users) > 0 || now.Sub(i.Used) < justUsed || !old && (most <= 0 || total <= most) {
			continue
		}
		out = append(out, i)
		total -= i.Bytes
	}
	return out
}
