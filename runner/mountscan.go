package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxScanEntries bounds the search for sockets below a mount's source. Folders
// near the source are searched first; what lies beyond the bound is not
// looked at, since a source tree of any size must remain mountable.
const maxScanEntries = 20_000

// kernelFileSystems are types whose files reach into the kernel.
var kernelFileSystems = []string{
	"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs",
	"securityfs", "bpf", "configfs", "efivarfs", "pstore", "binfmt_misc", "fusectl", "mqueue",
}

// inspectSource judges what is really at src on this host. The caller has
// judged its spelling.
func inspectSource(src string, roots []string) error {
	real, err := resolve(src)
	if err != nil {
		return fmt.Errorf("mount source %q: %w: its links cannot be followed: %w", src, ErrDenied, err)
	}
	if err := deniedSource(src, real, realRoots(roots)); err != nil {
		return err
	}
	if err := kernelMounts(src, real); err != nil {
		return err
	}
	found, err := findSocket(real, maxScanEntries)
	if err != nil {
		return fmt.Errorf("mount source %q: %w: it cannot be searched for sockets: %w", src, ErrDenied, err)
	}
	if found != "" {
		return fmt.Errorf("mount source %q: %w: it contains %s, a socket of that name controls the host", src, ErrDenied, found)
	}
	return nil
}

// resolve follows the links in p. Of a path that does not exist it follows
// those of the part that does; a link that leads nowhere is an error.
func resolve(p string) (string, error) {
	real, err := filepath.EvalSymlinks(p)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if _, err := os.Lstat(p); err == nil {
		return "", fmt.Errorf("%s is a link that leads nowhere", p)
	}
	parent, err := resolve(filepath.Dir(p))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(p)), nil
}

// realRoots adds to each denied folder the place its links lead to, such as
// /usr/lib/modules for /lib/modules.
func realRoots(roots []string) []string {
	out := slices.Clone(roots)
	for _, r := range roots {
		if real, err := filepath.EvalSymlinks(r); err == nil && real != r {
			out = append(out, real)
		}
	}
	return out
}

// findSocket searches dir breadth first for a name that isDeniedSocket knows,
// following no links, and gives up after limit entries. "" means none found.
func findSocket(dir string, limit int) (string, error) {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return "", ignoreGone(err)
	}
	queue := []string{dir}
	for len(queue) > 0 && limit > 0 {
		d := queue[0]
		queue = queue[1:]
		entries, err := readSome(d, limit)
		if err != nil {
			return "", err
		}
		limit -= len(entries)
		for _, e := range entries {
			p := filepath.Join(d, e.Name())
			if isDeniedSocket(e.Name()) {
				return p, nil
			}
			if e.IsDir() {
				queue = append(queue, p)
			}
		}
	}
	return "", nil
}

// readSome reads at most n entries of a folder. One that is gone is empty.
func readSome(dir string, n int) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, ignoreGone(err)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// kernelMounts refuses a source on or above a file system of the kernel's,
// wherever that is mounted: a second proc in a chroot is as good as the first.
func kernelMounts(src, real string) error {
	mounts, err := readMounts()
	if err != nil {
		return fmt.Errorf("mount source %q: %w: the host's mounts cannot be read: %w", src, ErrDenied, err)
	}
	if m, bad := kernelMountAt(mounts, real); bad {
		return fmt.Errorf("mount source %q: %w: a %s file system is mounted at %s", src, ErrDenied, m.fsType, m.point)
	}
	return nil
}

type hostMount struct{ point, fsType string }

// kernelMountAt finds a kernel file system that holds p or is mounted below it.
// Later lines of the mount table lie on top of earlier ones.
func kernelMountAt(mounts []hostMount, p string) (hostMount, bool) {
	var holder hostMount
	for _, m := range mounts {
		kernel := slices.Contains(kernelFileSystems, m.fsType)
		if kernel && m.point != p && within(m.point, p) {
			return m, true
		}
		if within(p, m.point) && len(m.point) >= len(holder.point) {
			holder = m
		}
	}
	return holder, slices.Contains(kernelFileSystems, holder.fsType)
}

// MountsBelow lists the places below dir, links followed and itself excluded,
// where another file system is mounted. A read-only bind of dir leaves those
// writable where an engine cannot bind read-only all the way down.
func MountsBelow(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range mounts {
		if m.point != real && within(m.point, real) {
			out = append(out, m.point)
		}
	}
	return out, nil
}

func readMounts() ([]hostMount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(b))
}

// parseMountinfo reads mount points and types off the kernel's table. The
// fields before the lone "-" vary in number; the type follows it.
func parseMountinfo(s string) ([]hostMount, error) {
	var out []hostMount
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if len(f) < 5 || dash < 0 || dash+1 >= len(f) {
			return nil, fmt.Errorf("mount table: cannot read line %q", strings.TrimSpace(line))
		}
		out = append(out, hostMount{point: unescapeOctal(f[4]), fsType: f[dash+1]})
	}
	return out, nil
}

// unescapeOctal undoes the kernel's \040 for a blank and its like.
func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
