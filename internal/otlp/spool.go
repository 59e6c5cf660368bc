package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// Files of a spool. Records are appended to the tail; the head is read, and
// when all of it was delivered the tail takes its place. Of the fourth file the
// size counts: one byte for each record that the collector will not get, so that
// counting one more is a write of one byte.
const (
	headName   = "head.jsonl"
	tailName   = "tail.jsonl"
	offsetName = "offset"
	missedName = "missed"
)

// spool is a queue of lines on disk, bounded in bytes. It is safe for one
// reader beside any number of writers.
type spool struct {
	dir   string
	limit int64
	lock  *os.File // held as long as the spool is open

	mu           sync.Mutex
	tail, missed *os.File
	// offset is how much of the head was delivered.
	offset int64
	size   struct{ head, tail, missed int64 }
}

// readSpool opens the spool of a folder that this process has to itself. Half a
// line at the end of a file, which a process that died left, is cut.
func readSpool(dir string, limit int64) (*spool, error) {
	s := &spool{dir: dir, limit: limit}
	b, err := os.ReadFile(s.path(offsetName))
	if err == nil {
		s.offset, err = strconv.ParseInt(string(b), 10, 64)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", offsetName, err)
	}
	if s.size.head, err = wholeLines(s.path(headName)); err != nil {
		return nil, err
	}
	if s.size.head == 0 { // see turn
		s.offset = 0
	}
	if s.size.tail, err = wholeLines(s.path(tailName)); err != nil {
		return nil, err
	}
	if s.missed, err = s.open(missedName); err != nil {
		return nil, err
	}
	fi, err := s.missed.Stat()
	if err == nil {
		s.size.missed = fi.Size()
		s.tail, err = s.open(tailName)
	}
	if err != nil {
		s.missed.Close()
		return nil, err
	}
	return s, nil
}

func (s *spool) path(name string) string { return filepath.Join(s.dir, name) }

func (s *spool) open(name string) (*os.File, error) {
	return os.OpenFile(s.path(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// wholeLines cuts a file behind its last whole line and returns its size; a
// file that is missing has none.
func wholeLines(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	start := max(fi.Size()-maxBatchBytes, 0) // a line is shorter
	b, err := io.ReadAll(io.NewSectionReader(f, start, maxBatchBytes))
	if err != nil {
		return 0, err
	}
	end := start + int64(bytes.LastIndexByte(b, '\n')+1)
	if end == fi.Size() {
		return end, nil
	}
	return end, f.Truncate(end)
}

// put appends a line, or counts it as missed when there is no room for it.
func (s *spool) put(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(line)) + 1
	// One longer than a batch would never leave, and nothing behind it.
	if n > maxBatchBytes || s.size.head-s.offset+s.size.tail+n > s.limit {
		return s.missLocked(1)
	}
	if _, err := s.tail.Write(append(line, '\n')); err != nil {
		return errors.Join(err, s.tail.Truncate(s.size.tail))
	}
	s.size.tail += n
	return nil
}

// miss counts lines that nobody will take.
func (s *spool) miss(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missLocked(n)
}

func (s *spool) missLocked(n int) error {
	written, err := s.missed.Write(make([]byte, n))
	s.size.missed += int64(written)
	return err
}

func (s *spool) save(offset int64) error {
	if err := datadir.WriteFile(s.path(offsetName), strconv.AppendInt(nil, offset, 10)); err != nil {
		return err
	}
	s.offset = offset
	return nil
}

// batch is what is to be delivered next.
type batch struct {
	lines  [][]byte
	end    int64 // the offset behind them
	missed int64 // how many are missing, to tell beside them
}

func (b batch) empty() bool { return len(b.lines) == 0 && b.missed == 0 }

// maxBatchBytes bounds a batch; it holds any single line.
const maxBatchBytes = 1 << 20

// next returns up to most of the oldest lines. They stay until done. That lines
// are missing is told once all that came before was delivered.
func (s *spool) next(most int) (batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offset == s.size.head && s.size.tail > 0 {
		if err := s.turn(); err != nil {
			return batch{}, err
		}
	}
	if s.offset == s.size.head {
		return batch{end: s.offset, missed: s.size.missed}, nil
	}
	f, err := os.Open(s.path(headName))
	if err != nil {
		return batch{}, err
	}
	defer f.Close()
	b := make([]byte, min(maxBatchBytes, s.size.head-s.offset))
	if _, err := io.ReadFull(io.NewSectionReader(f, s.offset, int64(len(b))), b); err != nil {
		return batch{}, fmt.Errorf("%s: %w", headName, err)
	}
	out := batch{end: s.offset}
	for len(out.lines) < most {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break
		}
		out.lines, out.end, b = append(out.lines, line), out.end+int64(len(line))+1, rest
	}
	return out, nil
}

// turn makes the tail the head. Whatever step is the last before a crash, no
// line is passed over: without a head the offset counts for nothing.
func (s *spool) turn() error {
	if err := os.Remove(s.path(headName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.size.head = 0
	if err := s.save(0); err != nil {
		return err
	}
	if err := os.Rename(s.path(tailName), s.path(headName)); err != nil {
		return err
	}
	s.tail.Close()
	s.size.head, s.size.tail = s.size.tail, 0
	var err error
	s.tail, err = s.open(tailName)
	return err
}

// done takes a batch away that was delivered.
func (s *spool) done(b batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.save(b.end); err != nil || b.missed == 0 {
		return err
	}
	if err := s.missed.Truncate(s.size.missed - b.missed); err != nil {
		return err
	}
	s.size.missed -= b.missed
	return nil
}

// waiting is how many bytes are not delivered.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size.head - s.offset + s.size.tail
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.tail.Close(), s.missed.Close(), s.lock.Close())
}
