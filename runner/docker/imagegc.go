package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// imageGC takes images away that this installation has pulled and that nobody
// uses any more. An image is in use while a container of anyone's has it, by
// its id, whatever names it goes by; none is ever removed by force.
type imageGC struct {
	begin sync.Once
	end   context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	wanted map[string]int // ids of images whose containers are being made
}

// want keeps an image while a container of it is being made.
func (g *imageGC) want(id string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wanted == nil {
		g.wanted = map[string]int{}
	}
	g.wanted[id]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.wanted[id]--; g.wanted[id] == 0 {
			delete(g.wanted, id)
		}
	}
}

// isWanted reports whether a container of the image is being made.
func (g *imageGC) isWanted(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wanted[id] > 0
}

// startImageGC begins the regular clean-up, once.
func (r *Runner) startImageGC() {
	keep := r.opts.Images.KeepUnused
	if keep <= 0 {
		return
	}
	r.gc.begin.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		r.gc.mu.Lock()
		r.gc.end, r.gc.done = cancel, done
		r.gc.mu.Unlock()
		go func() {
			defer close(done)
			tick := time.NewTicker(max(keep/3, time.Second))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if err := r.collectImages(ctx, time.Now()); err != nil && ctx.Err() == nil {
					r.opts.Log.Warn("unused images could not be removed", "error", err)
				}
			}
		}()
	})
}

func (r *Runner) stopImageGC() {
	r.gc.begin.Do(func() {}) // it does not begin any more
	r.gc.mu.Lock()
	end, done := r.gc.end, r.gc.done
	r.gc.mu.Unlock()
	if end != nil {
		end()
		<-done
	}
}

// collectImages removes what has been unused for long enough at now.
func (r *Runner) collectImages(ctx context.Context, now time.Time) error {
	all, err := r.images.read()
	if err != nil || len(all) == 0 {
		return err
	}
	c, cancel := call(ctx)
	containers, err := r.api.ContainerList(c, container.ListOptions{All: true})
	cancel()
	if err != nil {
		return wrap("list containers", err)
	}
	var busy []string
	for _, c := range containers {
		busy = append(busy, c.ImageID)
	}
	r.gc.mu.Lock()
	busy = slices.AppendSeq(busy, maps.Keys(r.gc.wanted))
	r.gc.mu.Unlock()
	errs := []error{r.images.used(busy...)}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		kept := slices.ContainsFunc(all[id].Names, func(n string) bool { return slices.Contains(r.opts.Images.Keep, n) })
		if !kept && !slices.Contains(busy, id) && now.Sub(all[id].Used) >= r.opts.Images.KeepUnused {
			errs = append(errs, r.dropImage(ctx, id, all[id]))
		}
	}
	return errors.Join(errs...)
}

// dropImage takes our names off an image; the last name takes the image with
// it. A name that means another image by now is not ours any more, and an
// image that came into use meanwhile stays.
func (r *Runner) dropImage(ctx context.Context, id string, n imageNote) error {
	for _, name := range n.Names {
		f, err := r.inspectImage(ctx, name)
		if errors.Is(err, runner.ErrNotFound) || err == nil && f.ID != id {
			continue
		}
		if err != nil {
			return err
		}
		c, cancel := call(ctx)
		_, err = r.api.ImageRemove(c, name, image.RemoveOptions{PruneChildren: true})
		cancel()
		err = goneIsNil(wrap("remove image "+name, err))
		if errors.Is(err, runner.ErrExists) { // in use
			return r.images.used(id)
		}
		if err != nil {
			return err
		}
		r.opts.Log.Info("removed an unused image", "image", name, "id", id)
	}
	return r.images.forget(id)
}
