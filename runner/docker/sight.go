package docker

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// maxLinks is how many links one path may lead over, as in the kernel.
const maxLinks = 40

// seen is something mounted, with the folder of this host that is there, "" for
// one that is not known.
type seen struct{ target, source string }

func (m seen) depth() int { return strings.Count(m.target, "/") }

// sight is a sandbox's file system as far as it can be foreseen.
type sight struct {
	layers  []string // topmost first
	mounted []seen   // at the place it came to lie, latest last
	beside  []seen   // mounted before or after what is looked at, nobody knows
}

// mountAll foresees where each of the mounts comes to lie, and refuses those
// that links lead to a place of the driver's. The engine mounts by the number
// of names in the target, and in any order where that is the same.
func (s *sight) mountAll(all []seen) (errs []error) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b seen) int { return a.depth() - b.depth() })
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(m seen) bool { return m.depth() > all[0].depth() })
		if n < 0 {
			n = len(all)
		}
		errs = append(errs, s.mountAbreast(all[:n])...)
		all = all[n:]
	}
	return errs
}

// mountAbreast is mountAll for mounts in no known order.
func (s *sight) mountAbreast(all []seen) (errs []error) {
	var lie []seen
	for _, m := range all {
		if at, err := s.resolve(m.target); err == nil {
			lie = append(lie, seen{at, m.source})
		}
	}
	s.beside = lie
	for _, m := range all {
		at, err := s.resolve(m.target)
		if err == nil && at != m.target {
			err = checkTarget(at)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("mount at %q: links lead it to %q: %w", m.target, at, err))
		}
	}
	s.beside, s.mounted = nil, append(s.mounted, lie...)
	return errs
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
		to, isLink, err := s.link(next)
		if err != nil {
			return next, err
		}
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
func (s sight) link(p string) (to string, isLink bool, err error) {
	for _, m := range s.beside {
		if strings.HasPrefix(p, m.target+"/") {
			return "", false, fmt.Errorf("it depends on which of two mounts comes first; mount it at a path that no link leads to: %w", runner.ErrDenied)
		}
	}
	for _, m := range slices.Backward(s.mounted) {
		if p == m.target {
			return "", false, nil
		}
		if rel, inside := strings.CutPrefix(p, strings.TrimSuffix(m.target, "/")+"/"); inside {
			if m.source == "" {
				return "", false, nil
			}
			to, isLink, _, err = linkIn(m.source, rel)
			return to, isLink, err
		}
	}
	return linkInLayers(s.layers, strings.TrimPrefix(p, "/"))
}

// linkInLayers looks for a name in layers, topmost first, and not in what a
// higher one has replaced.
func linkInLayers(layers []string, rel string) (to string, isLink bool, err error) {
	for _, dir := range layers {
		open, last, err := wayTo(dir, path.Dir(rel))
		if err != nil {
			return "", false, err
		}
		if open {
			if to, isLink, there, err := linkIn(dir, rel); there || err != nil {
				return to, isLink, err
			}
		}
		if last {
			break
		}
	}
	return "", false, nil
}

// wayTo goes down a layer to a folder: open when it is there, and last when no
// lower layer shows at that place, since something on the way is no folder, or
// one that replaces what is below.
func wayTo(dir, rel string) (open, last bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, false, nil
	}
	defer root.Close()
	at := "."
	for name := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, name)
		fi, err := root.Lstat(at)
		if err != nil {
			return false, last, nil
		}
		if !fi.IsDir() {
			return false, true, nil
		}
		how, err := attribute(root, at, opaque)
		if err != nil {
			return false, false, err
		}
		last = last || how == "y"
	}
	return true, last, nil
}

// opaque is how a layer says that a folder of it replaces the one below.
const opaque = "trusted.overlay.opaque"

// redirect is how a layer says that a folder of it continues another one below.
const redirect = "trusted.overlay.redirect"

// linkIn looks for a name below a folder of this host, and never outside it.
// In a layer, a name that a higher one removed is there, as a device.
func linkIn(dir, rel string) (to string, isLink, there bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false, false, nil // a file, or nothing
	}
	defer root.Close()
	fi, err := root.Lstat(rel)
	switch {
	case err != nil:
		return "", false, false, nil
	case fi.IsDir():
		return "", false, true, redirected(root, rel)
	case fi.Mode()&os.ModeSymlink == 0:
		return "", false, true, nil
	}
	to, err = root.Readlink(rel)
	return to, true, true, err
}

// redirected refuses a folder whose contents are those of another name.
func redirected(root *os.Root, rel string) error {
	if to, err := attribute(root, rel, redirect); err != nil || to == "" {
		return err
	}
	return fmt.Errorf("that folder was renamed in a layer, so what is in it cannot be told; copy it instead: %w", runner.ErrDenied)
}

// attribute is the text of a folder's extended attribute; "" without one.
func attribute(root *os.Root, rel, name string) (string, error) {
	f, err := root.OpenFile(rel, unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, unix.PathMax)
	n, err := unix.Fgetxattr(int(f.Fd()), name, b)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(b[:n]), nil
}
