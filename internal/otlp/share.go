package otlp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"

	"github.com/google/uuid"
)

// owner is whose a record is: a run, and the namespace that it is in, which is
// what tenants are.
type owner struct {
	namespace string
	run       uuid.UUID
}

// line is a record as the spool has it. The owner stands in front, so that whose
// the lines are can be told without reading records.
func (o owner) line(record []byte) []byte {
	return append([]byte(o.run.String()+" "+url.QueryEscape(o.namespace)+" "), record...)
}

// cutOwner splits a line of the spool. What has no owner in front is nobody's.
func cutOwner(line []byte) (owner, []byte) {
	id, rest, _ := bytes.Cut(line, []byte(" "))
	namespace, record, whole := bytes.Cut(rest, []byte(" "))
	run, err := uuid.ParseBytes(id)
	name, nerr := url.QueryUnescape(string(namespace))
	if !whole || err != nil || nerr != nil {
		return owner{}, line
	}
	return owner{name, run}, record
}

// shares is how many bytes of the spool are whose.
type shares struct {
	total      int64
	namespaces map[string]int64
	runs       map[owner]int64
}

func newShares() shares { return shares{namespaces: map[string]int64{}, runs: map[owner]int64{}} }

// runWeight is how much more a run's own bytes count than its namespace's.
const runWeight = 3

// room reports whether another n bytes of an owner's fit: what its namespace has
// and three times what its run has may come to as much as is free. So whoever
// fills the spool leaves room for others, however many fill it; a run that is
// alone has a fifth of it, and a namespace never more than half.
func (s shares) room(o owner, n, limit int64) bool {
	return s.namespaces[o.namespace]+n+runWeight*(s.runs[o]+n) <= limit-s.total-n
}

// add counts n bytes of an owner's, which are fewer when n is negative.
func (s *shares) add(o owner, n int64) {
	s.total += n
	if s.namespaces[o.namespace] += n; s.namespaces[o.namespace] == 0 {
		delete(s.namespaces, o.namespace)
	}
	if s.runs[o] += n; s.runs[o] == 0 {
		delete(s.runs, o)
	}
}

// addFile counts the lines of a file behind an offset; one that is missing has none.
func (s *shares) addFile(path string, offset int64) error {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxBatchBytes)
	for lines.Scan() {
		o, _ := cutOwner(lines.Bytes())
		s.add(o, int64(len(lines.Bytes()))+1)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
