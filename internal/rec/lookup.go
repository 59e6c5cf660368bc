package rec

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Codes of a command that did not start, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// defaultPath is searched when the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// startError says why a command did not start.
type startError struct {
	name   string
	reason string
	code   int
}

func (e *startError) Error() string { return "exec " + e.name + ": " + e.reason }

// lookPath finds the file to execute for name: name itself when it has a
// slash, else the first executable file of that name on path.
func lookPath(name, path string, hasPath bool) (string, *startError) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", asStartError(name, err)
		}
		return name, nil
	}
	if !hasPath {
		path = defaultPath
	}
	var found error = syscall.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		err := executable(file)
		if err == nil {
			return file, nil
		}
		// What is there but cannot be run is a better reason than "not found".
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
			found = err
		}
	}
	return "", asStartError(name, found)
}

func executable(file string) error {
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return syscall.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

// asStartError words an errno of looking up or executing name.
func asStartError(name string, err error) *startError {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return &startError{name, err.Error(), exitNotExecutable}
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		return &startError{name, "not found", exitNotFound}
	case syscall.EISDIR:
		return &startError{name, "is a directory", exitNotExecutable}
	case syscall.EACCES:
		return &startError{name, "permission denied (is it executable for this user?)", exitNotExecutable}
	case syscall.ENOEXEC:
		return &startError{name, "not a program for this machine, and no #! line", exitNotExecutable}
	}
	return &startError{name, errno.Error(), exitNotExecutable}
}
