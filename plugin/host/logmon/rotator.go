package logmon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const logFileMode = 0o644

// rotator writes into numbered files of bounded size and keeps the newest ones. A file ends
// with a whole line where one fits.
type rotator struct {
	prefix   string // directory and name without the number
	maxFiles int
	maxBytes int64
	index    int
	file     *os.File
	size     int64
}

// openRotator goes on with the newest file that is there.
func openRotator(dir, name string, maxFiles int, maxBytes int64) (*rotator, error) {
	r := &rotator{prefix: filepath.Join(dir, name) + ".", maxFiles: maxFiles, maxBytes: maxBytes}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read log directory: %w", err)
	}
	for _, e := range entries {
		number, isOurs := strings.CutPrefix(e.Name(), name+".")
		if n, err := strconv.Atoi(number); isOurs && err == nil && n > r.index {
			r.index = n
		}
	}
	return r, r.open()
}

func (r *rotator) open() error {
	f, err := os.OpenFile(r.prefix+strconv.Itoa(r.index), os.O_WRONLY|os.O_CREATE|os.O_APPEND, logFileMode)
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("open log file: %w", err)
	}
	r.file, r.size = f, info.Size()
	return nil
}

func (r *rotator) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		part := p
		if room := max(r.maxBytes-r.size, 0); int64(len(part)) > room {
			part = part[:room]
			if end := bytes.LastIndexByte(part, '\n'); end >= 0 {
				part = part[:end+1]
			}
		}
		n, err := r.file.Write(part)
		written += n
		r.size += int64(n)
		if err != nil {
			return written, fmt.Errorf("write log file: %w", err)
		}
		p = p[n:]
		if len(p) > 0 {
			if err := r.next(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// next begins a new file and drops the one that is too many.
func (r *rotator) next() error {
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("close log file: %w", err)
	}
	r.index++
	if err := r.open(); err != nil {
		return err
	}
	old := r.prefix + strconv.Itoa(r.index-r.maxFiles)
	if err := os.Remove(old); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old log file: %w", err)
	}
	return nil
}

func (r *rotator) Close() error { return r.file.Close() }
