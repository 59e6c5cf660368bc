package taskpath

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// Read reads a file that a job names, of at most so many bytes.
func (d Dirs) Read(s Source, most int64) ([]byte, error) {
	f, err := d.Open(s, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("source %q is no regular file", s)
	}
	// The handle itself cannot be read; this opens the very file it stands for.
	r, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", s, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("source %q: %w", s, err)
	case int64(len(b)) > most:
		return nil, fmt.Errorf("source %q has more than %d bytes", s, most)
	}
	return b, nil
}
