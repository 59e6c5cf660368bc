package runner

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// deniedSourcePrefixes are host folders that no bind mount may show: neither
// they themselves, nor anything below them, nor a folder they lie in.
var deniedSourcePrefixes = []string{
	"/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/boot", "/root", "/lib/modules",
	// State of engines, orchestrators and this driver: other tasks' secrets.
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/crio",
	"/var/lib/kubelet", "/var/lib/rancher", "/var/lib/nomad", "/opt/nomad", "/var/lib/wardyn",
}

// deniedSourceExact are folders that are refused themselves, while folders
// below them are not.
var deniedSourceExact = []string{"/", "/usr", "/home"}

// deniedSockets are names of sockets that hand over the host.
var deniedSockets = []string{
	"docker.sock", "containerd.sock", "containerd.sock.ttrpc", "podman.sock", "crio.sock",
	"nomad.sock", "buildkitd.sock",
}

// allowedTargetPrefixes are the places in a sandbox where a bind may land.
var allowedTargetPrefixes = []string{"/home/agent", "/work", "/workspace"}

// ValidateMount decides whether a host bind mount is allowed: nil, or an error
// that wraps ErrInvalid or ErrDenied and says which rule refused it.
//
//  1. The source is a non-empty, absolute, clean path.
//  2. It is not "/", "/usr" or "/home", and neither is, lies below nor contains
//     a denied folder. The same holds for the path its links lead to.
//  3. It is no engine's socket, and none is found below it. The search is
//     bounded, see maxScanEntries.
//  4. It is not on, and does not contain, a file system of the kernel's such
//     as a second proc in a chroot.
//  5. The target is clean and below one of the allowed prefixes.
//
// A source that does not exist yet is judged by its name and by the links of
// the part that does. Every other failure to look refuses the mount.
func ValidateMount(m Mount) error {
	if err := ValidateMountSource(m.Source); err != nil {
		return err
	}
	return ValidateTarget(m.Target)
}

// ValidateMountName judges a source by its name alone, for those who decide
// where nothing can be looked at. Whoever binds it calls ValidateMount too, or
// ValidateMountSource and ValidateTarget.
func ValidateMountName(src string) error {
	if err := cleanAbsolute("mount source", src); err != nil {
		return err
	}
	return deniedSource(src, src, deniedSourcePrefixes)
}

// ValidateMountSource is the source half of ValidateMount, for those who vet a
// host path before there is a target. Whoever binds it calls ValidateMount.
func ValidateMountSource(src string) error {
	return ValidateMountSourceBeside(src, nil)
}

// ValidateMountSourceBeside is ValidateMountSource with more denied folders:
// what a host learns only at run time, such as where its engine, its scheduler
// and this driver really keep their state.
func ValidateMountSourceBeside(src string, denied []string) error {
	if err := cleanAbsolute("mount source", src); err != nil {
		return err
	}
	roots := append(slices.Clone(deniedSourcePrefixes), denied...)
	if err := deniedSource(src, src, roots); err != nil {
		return err
	}
	return inspectSource(src, roots)
}

// ValidateTarget decides whether something may be placed at a path inside a
// sandbox: clean, absolute, and below /home/agent, /work or /workspace.
func ValidateTarget(tgt string) error {
	if err := cleanAbsolute("mount target", tgt); err != nil {
		return err
	}
	for _, p := range allowedTargetPrefixes {
		if within(tgt, p) {
			return nil
		}
	}
	return fmt.Errorf("mount target %q: %w: want a path below %s", tgt, ErrDenied, strings.Join(allowedTargetPrefixes, ", "))
}

func cleanAbsolute(what, p string) error {
	switch {
	case p == "":
		return fmt.Errorf("%s: %w: it is empty", what, ErrInvalid)
	case !path.IsAbs(p):
		return fmt.Errorf("%s %q: %w: want an absolute path", what, p, ErrInvalid)
	case path.Clean(p) != p:
		return fmt.Errorf("%s %q: %w: want the clean form %q", what, p, ErrInvalid, path.Clean(p))
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("%s %q: %w: it holds a NUL", what, p, ErrInvalid)
	}
	return nil
}

// deniedSource applies the list to one spelling of a source: the path as given
// or the path that its links lead to. The error names the source as given.
func deniedSource(given, p string, roots []string) error {
	via := ""
	if p != given {
		via = fmt.Sprintf(" (it leads to %s)", p)
	}
	if slices.Contains(deniedSourceExact, p) {
		return fmt.Errorf("mount source %q%s: %w: %s as a whole is never mounted; name the folder below it", given, via, ErrDenied, p)
	}
	for _, d := range roots {
		switch {
		case within(p, d):
			return fmt.Errorf("mount source %q%s: %w: nothing of %s is ever mounted", given, via, ErrDenied, d)
		case within(d, p):
			return fmt.Errorf("mount source %q%s: %w: it contains %s, which is never mounted", given, via, ErrDenied, d)
		}
	}
	if isDeniedSocket(path.Base(p)) {
		return fmt.Errorf("mount source %q%s: %w: a socket of that name controls the host", given, via, ErrDenied)
	}
	return nil
}

func isDeniedSocket(base string) bool {
	return slices.Contains(deniedSockets, base) ||
		strings.HasPrefix(base, "containerd-shim") && strings.Contains(base, ".sock")
}

// InProc reports whether p is /proc or lies below it. No process may start
// there: a runtime that still has a folder of the host open would hand it over.
func InProc(p string) bool {
	return within(path.Clean(p), "/proc")
}

// within reports whether p is dir or lies below it. Both are clean and absolute.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
