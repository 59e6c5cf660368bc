package protocol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// output collects what is written, and may hold the writer up once.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	at   int
	then func()
}

// when has f called once, in the writer's way, when n bytes have come.
func (o *output) when(n int, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at, o.then = n, f
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	o.buf.Write(b)
	var f func()
	if o.then != nil && o.buf.Len() >= o.at {
		f, o.then = o.then, nil
	}
	o.mu.Unlock()
	if f != nil {
		f()
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Len()
}

func (o *output) has(s string) bool { return strings.Contains(o.String(), s) }

func (o *output) tail(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.buf.Bytes()
	return string(b[max(0, len(b)-n):])
}

// eventLog keeps the driver's task events.
type eventLog struct {
	mu   sync.Mutex
	list []host.Event
}

func (l *eventLog) add(e host.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
}

// of is the events of one task so far.
func (l *eventLog) of(id string) []host.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []host.Event
	for _, e := range l.list {
		if e.TaskID == id {
			out = append(out, e)
		}
	}
	return out
}

// find is the first event of a task whose text holds part.
func (l *eventLog) find(id, part string) *host.Event {
	for _, e := range l.of(id) {
		if strings.Contains(e.Message, part) {
			return &e
		}
	}
	return nil
}

// told waits for an event of a task whose text holds part: what a client is told
// of a task comes beside its exit, not before it.
func (r *rig) told(t *testing.T, id, part string) *host.Event {
	t.Helper()
	eventually(t, "an event: "+part, func() bool { return r.events.find(id, part) != nil })
	return r.events.find(id, part)
}

// keeper is the installation's one keeper, and holder what is beside it.
func (r *rig) keeper(t *testing.T) (pid int) { return r.daemon(t, "keeper") }
func (r *rig) holder(t *testing.T) (pid int) { return r.daemon(t, "holder") }

// daemon waits for the installation's one process of a kind.
func (r *rig) daemon(t *testing.T, kind string) (pid int) {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "one "+kind, func() bool {
		found := testenv.Daemons(kind, strings.TrimSpace(string(id)))
		if len(found) == 1 {
			pid = found[0]
		}
		return len(found) == 1
	})
	return pid
}

// numbered is prefix 1..n, a line each.
func numbered(prefix string, n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(prefix)
		b.WriteString(strconv.Itoa(i))
		b.WriteByte('\n')
	}
	return b.String()
}

// seam checks that got is want with at most dup bytes given twice at one
// place, as it is when a copier dies between writing and noting it.
func seam(got, want string, dup int) error {
	over := len(got) - len(want)
	head, tail := 0, 0
	for head < min(len(got), len(want)) && got[head] == want[head] {
		head++
	}
	for tail < min(len(got), len(want)) && got[len(got)-1-tail] == want[len(want)-1-tail] {
		tail++
	}
	switch {
	case over < 0:
		return fmt.Errorf("%d bytes are missing; the first %d are right", -over, head)
	case over > dup:
		return fmt.Errorf("%d bytes came twice, at most %d may", over, dup)
	case head+tail < len(got):
		return fmt.Errorf("%d bytes too many, and they repeat nothing: right are the first %d and the last %d of %d: %q",
			over, head, tail, len(got), got[head:min(len(got), head+80)])
	}
	return nil
}

func TestSeam(t *testing.T) {
	for _, c := range []struct {
		got, want string
		dup       int
		ok        bool
	}{
		{"abc", "abc", 0, true}, {"abbc", "abc", 1, true}, {"abcbcd", "abcd", 2, true},
		{"abcbcd", "abcd", 1, false}, {"abd", "abcd", 9, false}, {"abxcd", "abcd", 9, false}, {"acbd", "abcd", 9, false},
	} {
		if err := seam(c.got, c.want, c.dup); (err == nil) != c.ok {
			t.Errorf("%q for %q with %d: %v", c.got, c.want, c.dup, err)
		}
	}
}
