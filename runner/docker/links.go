package docker

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// A runtime follows links as it mounts: those of the image, and those in what
// it has mounted before. checkLinks refuses, before anything is made, what
// would thereby come to lie where only the driver mounts, or the driver's own
// folder elsewhere. It looks at the image's layers and at the sources of binds;
// the rest is seen by checkContainerLinks, once there is a container.
func checkLinks(spec runner.SandboxSpec, img imageFacts) error {
	var errs []error
	s := sight{layers: img.Layers}
	if at, err := s.resolve(ownTarget); err != nil || at != ownTarget {
		errs = append(errs, fmt.Errorf("image %s has a link to %q at %s, where the driver's own files are mounted; build it without: %w",
			spec.Image, at, ownTarget, cmp.Or(err, runner.ErrDenied)))
	}
	return invalid(append(errs, s.mountAll(mountsOf(spec, img))...))
}

// checkContainerLinks is checkLinks for a container that is about to be
// started, for the first time or again. It also sees the files of volumes, what
// the engine put into new ones, and what an earlier life of the sandbox left in
// its own files.
func checkContainerLinks(c container.InspectResponse) error {
	s := sight{}
	if c.ContainerJSONBase != nil {
		s.layers = layersOf(c.GraphDriver.Name, c.GraphDriver.Data)
	}
	var errs []error
	if at, err := s.resolve(ownTarget); err != nil || at != ownTarget {
		errs = append(errs, fmt.Errorf("%s in the sandbox has become a link to %q: %w", ownTarget, at, cmp.Or(err, runner.ErrDenied)))
	}
	return invalid(append(errs, s.mountAll(containerMounts(c))...))
}

// mountsOf lists what will be mounted beside the driver's own.
func mountsOf(spec runner.SandboxSpec, img imageFacts) (out []seen) {
	for _, m := range spec.Mounts {
		out = append(out, seen{m.Target, m.Source})
	}
	if t := spec.Task; t != nil {
		for _, m := range t.Mounts {
			if !m.Yields || !below(img.WorkDir, m.Target) {
				out = append(out, seen{m.Target, m.Source})
			}
		}
		for _, m := range t.Tmpfs {
			out = append(out, seen{m.Target, ""})
		}
	}
	for _, v := range img.Volumes {
		out = append(out, seen{path.Clean(v), ""})
	}
	return out
}

// containerMounts lists what a container has mounted beside the driver's own,
// which lies where nobody else's may.
func containerMounts(c container.InspectResponse) (out []seen) {
	for _, m := range c.Mounts {
		if checkTarget(m.Destination) == nil {
			out = append(out, seen{m.Destination, m.Source})
		}
	}
	if c.ContainerJSONBase != nil && c.HostConfig != nil {
		for target := range c.HostConfig.Tmpfs {
			out = append(out, seen{target, ""})
		}
	}
	slices.SortFunc(out, func(a, b seen) int { return strings.Compare(a.target, b.target) })
	return out
}

// layersOf are the folders of an image's layers on this host, topmost first.
// Engines that keep images otherwise name none.
func layersOf(driver string, data map[string]string) []string {
	if driver != "overlay2" {
		return nil
	}
	var out []string
	for _, dir := range append([]string{data["UpperDir"]}, strings.Split(data["LowerDir"], ":")...) {
		if dir != "" {
			out = append(out, dir)
		}
	}
	return out
}
