package taskpath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ParseSecret judges the text of a path to a secret and returns it relative to
// the task's secrets folder. Nothing is opened.
func ParseSecret(text string) (string, error) {
	rel, ok := strings.CutPrefix(path.Clean(strings.TrimPrefix(text, "/")), "secrets/")
	switch {
	case strings.ContainsRune(text, 0):
		return "", fmt.Errorf("it holds a NUL byte")
	case !ok:
		return "", fmt.Errorf("want a file below secrets/: what the task can write in itself is no place for a secret")
	}
	return rel, nil
}

// ReadSecret reads a regular file beneath the task's secrets folder, without
// following links. One of more than most bytes is refused.
func (d Dirs) ReadSecret(rel string, most int64) ([]byte, error) {
	root, err := openBase(d.Secrets())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openRegular(root, rel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join("secrets", rel), explain(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join("secrets", rel), err)
	}
	return b, nil
}

// openRegular opens a regular file for reading; anything else there is refused
// without waiting for what may be a pipe.
func openRegular(root *os.File, rel string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: resolve}
	fd, err := openat2(root, rel, how)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
