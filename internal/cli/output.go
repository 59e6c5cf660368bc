package cli

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// longestLine is where a line without end is broken, in bytes.
const longestLine = 1 << 20

// printer writes the lines of several tasks to two streams, each line whole
// and behind the name of its task.
type printer struct {
	width int // of the longest name

	mu       sync.Mutex // guards writes to both, so that they keep their order
	broken   func()     // see onBroken
	out, err io.Writer
	failed   bool
}

func newPrinter(stdout, stderr io.Writer, names []string) *printer {
	p := &printer{out: stdout, err: stderr}
	for _, n := range names {
		p.width = max(p.width, len(n))
	}
	return p
}

// onBroken has f called, at most once, when one of the streams takes no more; at
// once if that has happened already.
func (p *printer) onBroken(f func()) {
	p.mu.Lock()
	p.broken = f
	failed := p.failed
	p.mu.Unlock()
	if failed {
		f()
	}
}

// event tells on stderr what happens to a task, or with "" to the run. The text
// may stem from a sandbox, so nothing in it reaches the terminal as a control
// sequence; only its line ends are what they are.
func (p *printer) event(task, format string, args ...any) {
	var lines []byte
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		lines = fmt.Appendf(lines, "%-*s * %s\n", p.width, task, printable(line))
	}
	p.write(p.err, lines)
}

func (p *printer) write(w io.Writer, line []byte) {
	p.mu.Lock()
	_, err := w.Write(line)
	first := err != nil && !p.failed
	p.failed = p.failed || err != nil
	broken := p.broken
	p.mu.Unlock()
	if first && broken != nil {
		broken() // not under the lock: it may have something to say
	}
}

// stdout and stderr give a writer for a task's stream.
func (p *printer) stdout(task string) *lineWriter { return p.lines(task, p.out) }
func (p *printer) stderr(task string) *lineWriter { return p.lines(task, p.err) }

func (p *printer) lines(task string, to io.Writer) *lineWriter {
	return &lineWriter{p: p, to: to, prefix: fmt.Appendf(nil, "%-*s | ", p.width, task)}
}

// lineWriter holds a line back until it is whole. The bytes are a task's own
// and passed on as they are. It is for one goroutine.
type lineWriter struct {
	p      *printer
	to     io.Writer
	prefix []byte
	rest   []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	var whole []byte
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		w.rest = append(w.rest, line...)
		if ended || len(w.rest) >= longestLine {
			whole = append(append(append(whole, w.prefix...), w.rest...), '\n')
			w.rest = w.rest[:0]
		}
	}
	if len(whole) > 0 {
		w.p.write(w.to, whole)
	}
	return len(b), nil
}

// Flush writes a last line that has no end of its own.
func (w *lineWriter) Flush() {
	if len(w.rest) > 0 {
		w.p.write(w.to, append(append(append([]byte{}, w.prefix...), w.rest...), '\n'))
		w.rest = nil
	}
}

// printable escapes what could make a terminal lie: control characters, the
// marks that turn the writing direction round, and bytes that are no UTF-8.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
