package seam

import (
	"math"
	"unicode/utf8"
)

// clearFrom is the number of matching bytes from which on a place is believed
// for its content alone.
const clearFrom = 16

// Overlap finds how many bytes at the end of the log are also the first bytes
// of the connection. log is the log's end; attach is the beginning of what the
// connection brings, as far as it has come: when it ends within the overlap,
// the log simply goes on. 0 means that they have nothing in common.
//
// received is how much the connection had brought when reading the log began.
// What came later may be newer than the log, so a longer overlap is taken only
// when the content leaves no doubt.
//
// The answer counts bytes of the connection.
func Overlap(log, attach []byte, received int64) int64 {
	text, lead, _ := logForm(attach)
	if len(text) == 0 {
		return 0
	}
	m := newMatcher(text)
	k, clear := best(m, log, math.MaxInt64)
	if !clear {
		k, _ = best(m, log, received)
	}
	if k == 0 || utf8.Valid(attach) {
		return k
	}
	return rawLength(attach, lead, k)
}

// best is the most credible overlap of at most limit bytes. It is clear when
// enough bytes match and no other place matches nearly as well. In a stream
// that repeats itself several do; then the shortest of them is taken, so that
// bytes are rather delivered twice than lost.
func best(m *matcher, log []byte, limit int64) (overlap int64, clear bool) {
	places, strongest := 0, 0
	// All of attach stands within the log.
	m.state = 0
	for i, b := range log {
		if !m.next(b) {
			continue
		}
		if k := int64(len(log) - i - 1 + len(m.pattern)); k <= limit {
			overlap, strongest = k, len(m.pattern)
			places++
		}
	}
	// The log ends within attach: after any of these lengths, longest first.
	for n := m.state; n > 0; n = m.border(n) {
		if int64(n) > limit || n == len(m.pattern) {
			continue
		}
		if strongest = max(strongest, n); 2*n >= strongest {
			overlap = int64(n)
			places++
		}
	}
	return overlap, places == 1 && strongest >= clearFrom
}
