package seam

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// Position is where delivered output ends.
type Position struct {
	Delivered int64  // bytes of the stream delivered so far
	Tail      []byte // the last of them
}

// Log is a log that was read, and where in it delivery has to go on.
type Log struct {
	Start int64 // offset of the first byte that was not delivered
	Size  int64 // bytes in the log
	// Found is false when the log no longer reaches back to the position: then
	// Start is 0, and what the stream had in between is lost, nobody knows how much.
	Found bool
	// Ahead is the number of delivered bytes that the log does not have yet.
	Ahead int64
}

const (
	// partialMax is how much of an unfinished line an engine keeps out of its log.
	partialMax = 16 << 10
	// endMin is the shortest part of a tail that is not taken for chance.
	endMin = 64
)

// Read copies the log to spool and finds the position in it.
func Read(log io.Reader, spool io.Writer, pos Position) (Log, error) {
	tail, _, open := logForm(pos.Tail)
	f := finder{at: pos.Delivered - int64(open), m: newMatcher(tail), done: pos.Delivered == 0}
	buf := make([]byte, 64<<10)
	for {
		n, err := log.Read(buf)
		if n > 0 {
			f.feed(buf[:n])
			if _, err := spool.Write(buf[:n]); err != nil {
				return Log{}, err
			}
		}
		if err == io.EOF {
			return f.result(pos.Delivered, int64(open)), nil
		}
		if err != nil {
			return Log{}, err
		}
	}
}

// finder looks for the tail: at its own offset, and wherever else it stands.
type finder struct {
	m     *matcher
	at    int64  // offset at which the tail ends in a log with its head intact
	head  []byte // the log's first bytes, fewer than the tail has
	size  int64
	match int64 // offset after the last occurrence, 0 for none
	done  bool  // it was at its own offset: nothing else counts
}

func (f *finder) feed(p []byte) {
	if room := len(f.m.pattern) - 1 - len(f.head); room > 0 {
		f.head = append(f.head, p[:min(room, len(p))]...)
	}
	if !f.done {
		for i, b := range p {
			if !f.m.next(b) {
				continue
			}
			f.match = f.size + int64(i) + 1
			if f.match == f.at {
				f.done = true
				break
			}
		}
	}
	f.size += int64(len(p))
}

// result decides; open is the part of an unfinished character the tail ended with.
func (f *finder) result(delivered, open int64) Log {
	l := Log{Size: f.size, Found: true}
	missing := f.m.pattern[f.m.state:]
	switch {
	case delivered == 0:
	case f.match > 0:
		l.Start = f.match + open
	case f.m.state >= endMin, f.m.state > 0 && !bytes.ContainsRune(missing, '\n'):
		// The log ends within the tail: it lags behind, or what is missing is
		// the beginning of a line, which is logged when it is complete.
		l.Start, l.Ahead = f.size, int64(len(missing))+open
	case f.size == 0, f.behind(delivered):
		l.Start, l.Ahead = f.size, delivered-f.size
	default:
		end := f.tailEnd()
		l.Found, l.Start = end > 0, end+open*min(end, 1)
	}
	if l.Start > l.Size {
		l.Start, l.Ahead = l.Size, l.Start-l.Size
	}
	return l
}

// behind: all of the tail, and more, is the beginning of one line.
func (f *finder) behind(delivered int64) bool {
	return delivered > f.size && delivered-f.size <= partialMax && !bytes.ContainsRune(f.m.pattern, '\n')
}

// tailEnd is the length of the longest end of the tail that the log begins
// with: rotation may have cut within it.
func (f *finder) tailEnd() int64 {
	for tail := f.m.pattern; len(tail) >= endMin; tail = tail[1:] {
		if bytes.HasPrefix(f.head, tail) {
			return int64(len(tail))
		}
	}
	return 0
}

// logForm is p as an engine's log has it: bytes that are not UTF-8 replaced.
// The parts of characters that p may begin and end with are left out; lead and
// open are their lengths.
func logForm(p []byte) (text []byte, lead, open int) {
	if utf8.Valid(p) {
		return p, 0, 0
	}
	for ; lead < utf8.UTFMax-1 && len(p) > 0 && !utf8.RuneStart(p[0]); lead++ {
		p = p[1:]
	}
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				p, open = p[:len(p)-n], n
			}
			break
		}
	}
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		text = utf8.AppendRune(text, r) // each bad byte becomes U+FFFD
		p = p[n:]
	}
	return text, lead, open
}

// rawLength is how many bytes of p, cut as logForm cuts it, make up the first
// n bytes of its text.
func rawLength(p []byte, lead int, n int64) int64 {
	raw := int64(lead)
	for p = p[lead:]; n > 0 && len(p) > 0; {
		r, size := utf8.DecodeRune(p)
		n -= int64(utf8.RuneLen(r))
		raw += int64(size)
		p = p[size:]
	}
	return raw + max(n, 0)
}
