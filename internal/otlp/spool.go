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
// when all of it was delivered the tail takes its place.
const (
	headName    = "head.jsonl"
	tailName    = "tail.jsonl"
	offsetName  = "offset"
	missingName = "missing"
)

// spool is a queue of lines on disk, bounded in bytes, of which nobody gets all.
// It is safe for one reader beside any number of writers.
type spool struct {
	dir   string
	limit int64
	lock  *os.File // held as long as the spool is open

	mu      sync.Mutex
	tail    *os.File
	missing *missing
	// offset is how much of the head was delivered.
	offset int64
	size   struct{ head, tail int64 }
	shares shares
}

// readSpool opens the spool of a folder that this process has to itself. Half a
// line at the end of a file, which a process that died left, is cut.
func readSpool(dir string, limit int64) (*spool, error) {
	s := &spool{dir: dir, limit: limit, shares: newShares()}
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
	if err := errors.Join(s.shares.addFile(s.path(headName), s.offset), s.shares.addFile(s.path(tailName), 0)); err != nil {
		return nil, err
	}
	if s.missing, err = openMissing(s.path(missingName)); err != nil {
		return nil, err
	}
	if s.tail, err = s.open(tailName); err != nil {
		s.missing.close()
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

// put appends a record, or counts it as missing when there is no room for it.
func (s *spool) put(o owner, record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := append(o.line(record), '\n')
	n := int64(len(line))
	// One longer than a batch would never leave, and nothing behind it.
	if n > maxBatchBytes || !s.shares.room(o, n, s.limit) {
		return s.missing.add(o.run, 1)
	}
	if _, err := s.tail.Write(line); err != nil {
		return errors.Join(err, s.tail.Truncate(s.size.tail))
	}
	s.size.tail += n
	s.shares.add(o, n)
	return nil
}

// miss counts records that nobody will take.
func (s *spool) miss(entries []entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if err := s.missing.add(e.run, 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) save(offset int64) error {
	if err := datadir.WriteFile(s.path(offsetName), strconv.AppendInt(nil, offset, 10)); err != nil {
		return err
	}
	s.offset = offset
	return nil
}

// entry is one record.
type entry struct {
	owner
	record []byte // a control.OwnedRecord in JSON
	size   int64  // of its line in the file
}

// batch is what is to be delivered next.
type batch struct {
	entries []entry
	end     int64 // the offset behind them
	gaps    []gap // told when there is no entry
}

func (b batch) empty() bool { return len(b.entries) == 0 && len(b.gaps) == 0 }

// maxBatchBytes bounds a batch; it holds any single line.
const maxBatchBytes = 1 << 20

// next returns up to most of the oldest records. They stay until done. That some
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
		return batch{end: s.offset, gaps: s.missing.gaps()}, nil
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
	for len(out.entries) < most {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break
		}
		e := entry{size: int64(len(line)) + 1}
		e.owner, e.record = cutOwner(line)
		out.entries, out.end, b = append(out.entries, e), out.end+e.size, rest
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
	if len(b.entries) == 0 {
		return s.missing.told(b.gaps)
	}
	if err := s.save(b.end); err != nil {
		return err
	}
	for _, e := range b.entries {
		s.shares.add(e.owner, -e.size)
	}
	return nil
}

// waiting is how many bytes are not delivered.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.total
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.tail.Close(), s.missing.close(), s.lock.Close())
}
