package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// Late is how long an engine has to bring about what a process that was killed
// had just asked of it: it goes on with that although nobody waits for it.
const Late = 2 * time.Second

// RemoveProbes removes what probes of this installation left on the engine and
// in the run root when their process ended in the middle, also what of it comes
// late. No process may be probing meanwhile.
func (r *Runner) RemoveProbes(ctx context.Context) error {
	sockets, err := filepath.Glob(filepath.Join(r.opts.Dir.RunRoot(), earsPrefix+"*"))
	for _, dir := range sockets {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err
	}
	names, err := r.probesLeft(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	remove := func() error {
		var errs []error
		for name := range names {
			errs = append(errs, r.removeOwned(ctx, name), r.removeNetworks(ctx, name), r.runs.Release(name))
		}
		return errors.Join(errs...)
	}
	if err := remove(); err != nil {
		return err
	}
	select {
	case <-time.After(Late):
	case <-ctx.Done():
	}
	return remove()
}

// probesLeft names the probes that have a container, a network or a subnet.
func (r *Runner) probesLeft(ctx context.Context) (map[string]bool, error) {
	owners, err := r.runs.Owners()
	if err != nil {
		return nil, err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", labelInstance+"="+r.opts.Dir.Instance()))
	containers, err := r.api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, wrap("list probes", err)
	}
	networks, err := r.api.NetworkList(ctx, network.ListOptions{Filters: ours})
	if err != nil {
		return nil, wrap("list networks of probes", err)
	}
	names := map[string]bool{}
	for _, o := range owners {
		if strings.HasPrefix(o, probePrefix) {
			names[o] = true
		}
	}
	add := func(name string, labels map[string]string) {
		name = strings.TrimPrefix(name, "/")
		if strings.HasPrefix(name, probePrefix) && r.owns(name, labels) {
			names[name] = true
		}
	}
	for _, c := range containers {
		for _, name := range c.Names {
			add(name, c.Labels)
		}
	}
	for _, n := range networks {
		add(n.Name, n.Labels)
	}
	return names, nil
}
