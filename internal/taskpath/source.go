package taskpath

import (
	"fmt"
	"path"
	"strings"
)

// Source is a place in a task's folders that a job may mount.
type Source struct {
	// Shared: Path is beneath the allocation's shared folder (the task's
	// /alloc), otherwise beneath the task's own folder.
	Shared bool
	Path   string // clean, relative, never "."
}

// String is the source as a job would write it.
func (s Source) String() string {
	if s.Shared {
		return "alloc/" + s.Path
	}
	return s.Path
}

// closed are the parts of a task's folder that no job may mount, with the reason.
var closed = map[string]string{
	"wardyn":  "holds the driver's own records",
	"private": "is Nomad's own",
	"secrets": "is mounted whole, at /secrets, by mount_secrets = true",
	"tmp":     "is Nomad's own",
}

// ParseSource judges the text of a relative mount source. Nothing is opened.
// The folder "alloc" is the allocation's shared one, also in the spelling
// "../alloc".
func ParseSource(text string) (Source, error) {
	if text == "" {
		return Source{}, fmt.Errorf("the source is empty")
	}
	if strings.ContainsRune(text, 0) {
		return Source{}, fmt.Errorf("source %q holds a NUL byte", text)
	}
	if path.IsAbs(text) {
		return Source{}, absolute(text)
	}
	clean := path.Clean(text)
	clean = strings.TrimPrefix(clean, "../alloc/")
	if clean != path.Clean(text) {
		clean = "alloc/" + clean
	}
	first, rest, _ := strings.Cut(clean, "/")
	switch {
	case clean == ".":
		return Source{}, fmt.Errorf("source %q is the whole task directory; name a folder in it, such as local", text)
	case first == "..":
		return Source{}, fmt.Errorf("source %q leaves the task directory; name a folder in it, such as local, or alloc/data", text)
	case closed[first] != "":
		return Source{}, fmt.Errorf("source %q: %s/ in the task directory %s", text, first, closed[first])
	case first != "alloc":
		return Source{Path: clean}, nil
	case rest == "":
		return Source{}, fmt.Errorf("source %q is the whole shared directory, which stands at /alloc already; name a folder in it", text)
	case rest == "logs" || strings.HasPrefix(rest, "logs/"):
		return Source{}, fmt.Errorf("source %q: alloc/logs holds the log pipes of every task of the allocation", text)
	}
	return Source{Shared: true, Path: rest}, nil
}

// absolute explains a source that starts with a slash. /local and /alloc are
// what those folders are called inside the sandbox.
func absolute(text string) error {
	for _, dir := range []string{"/local/", "/alloc/"} {
		if strings.HasPrefix(text, dir) {
			return fmt.Errorf("source %q is a path of the host; for the task's own folder write %q", text, text[1:])
		}
	}
	return fmt.Errorf("source %q is a path of the host; only folders of the task can be named here, "+
		"for anything else use a host volume with volume_mount", text)
}
