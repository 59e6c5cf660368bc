package cli

import (
	"bytes"
	"sync"
)

// tailLines is how much of a plugin's log is shown when it did not start.
const tailLines = 20

// tail keeps the last lines of a log, for when they are needed after all.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
	rest  []byte // a line that has not ended
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, b...)
	for {
		line, after, ended := bytes.Cut(t.rest, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		t.lines = append(t.lines, bytes.Clone(line))
		t.lines = t.lines[max(len(t.lines)-tailLines, 0):]
		t.rest = after
	}
}

// String is the lines, each behind an indent; "" when there are none.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out bytes.Buffer
	for _, l := range t.lines {
		out.WriteString("\n  " + printable(string(l)))
	}
	return out.String()
}
