package docker

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// maxLinks is how many links one path may lead over, as in the kernel.
const maxLinks = 40

// A runtime follows links as it mounts: those of the image, and those in what
// it has mounted before. checkLinks refuses what would thereby come to lie
// where only the driver mounts, or the driver's own folder elsewhere. It looks
// at the image's layers and at the sources of binds on this host. What it
// cannot see, such as a volume's files, is taken to have no links.
func checkLinks(spec runner.SandboxSpec, img imageFacts) error {
	s := sight{layers: img.Layers}
	var errs []error
	if at, err := s.resolve(ownTarget); err != nil || at != ownTarget {
		errs = append(errs, fmt.Errorf("image %s has a link to %q at %s, where the driver's own files are mounted; build it without: %w",
			spec.Image, at, ownTarget, cmp.Or(err, runner.ErrDenied)))
	}
	for _, m := range mountsInOrder(spec, img) {
		at, err := s.resolve(m.target)
		if err == nil && at != m.target {
			err = checkTarget(at)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("mount at %q: links lead it to %q: %w", m.target, at, err))
			continue
		}
		s.mounted = append(s.mounted, seen{at, m.source})
	}
	return invalid(errs)
}

// seen is something mounted, with the folder of this host that is there, "" for
// one that is not known.
type seen struct{ target, source string }

// mountsInOrder lists what will be mounted beside the driver's own, in the
// engine's order: by the number of names in the target.
func mountsInOrder(spec runner.SandboxSpec, img imageFacts) (out []seen) {
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
	slices.SortStableFunc(out, func(a, b seen) int { return strings.Count(a.target, "/") - strings.Count(b.target, "/") })
	return out
}

// sight is a sandbox's file system as far as it can be foreseen.
type sight struct {
	layers  []string // of the image, topmost first
	mounted []seen   // latest last
}

// resolve follows the links in an absolute, clean path, the last name included.
func (s sight) resolve(p string) (string, error) {
	at, todo := "/", strings.Split(strings.TrimPrefix(p, "/"), "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		to, isLink := s.link(next)
		if !isLink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return at, fmt.Errorf("more than %d links: %w", maxLinks, runner.ErrInvalid)
		}
		if path.IsAbs(to) {
			at = "/"
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return at, nil
}

// link reads what is at a path whose folder has no links in it.
func (s sight) link(p string) (to string, isLink bool) {
	for _, m := range slices.Backward(s.mounted) {
		if p == m.target {
			return "", false
		}
		if rel, inside := strings.CutPrefix(p, strings.TrimSuffix(m.target, "/")+"/"); inside {
			if m.source == "" {
				return "", false
			}
			to, isLink, _ = linkIn(m.source, rel)
			return to, isLink
		}
	}
	for _, dir := range s.layers {
		if to, isLink, there := linkIn(dir, strings.TrimPrefix(p, "/")); there {
			return to, isLink
		}
	}
	return "", false
}

// linkIn looks for a name below a folder of this host, and never outside it.
// In a layer, a name that a higher one removed is there, as a device.
func linkIn(dir, rel string) (to string, isLink, there bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false, false
	}
	defer root.Close()
	fi, err := root.Lstat(rel)
	if err != nil {
		return "", false, false
	}
	if fi.Mode()&os.ModeSymlink == 0 {
		return "", false, true
	}
	to, err = root.Readlink(rel)
	return to, err == nil, true
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
