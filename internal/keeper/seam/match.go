package seam

// matcher follows a text byte by byte and knows at each point the longest
// prefix of its pattern that the text ends with (Knuth, Morris, Pratt): linear
// however often the text repeats itself.
type matcher struct {
	pattern []byte
	fail    []int32 // fail[i]: the longest proper border of pattern[:i+1]
	state   int     // bytes of the pattern that the text ends with
}

func newMatcher(pattern []byte) *matcher {
	m := &matcher{pattern: pattern, fail: make([]int32, len(pattern))}
	k := int32(0)
	for i := 1; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = m.fail[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		m.fail[i] = k
	}
	return m
}

// next takes one byte of the text and says whether the whole pattern ends here.
func (m *matcher) next(b byte) bool {
	if len(m.pattern) == 0 {
		return false
	}
	if m.state == len(m.pattern) {
		m.state = int(m.fail[m.state-1])
	}
	for m.state > 0 && m.pattern[m.state] != b {
		m.state = int(m.fail[m.state-1])
	}
	if m.pattern[m.state] == b {
		m.state++
	}
	return m.state == len(m.pattern)
}

// border is the next shorter prefix of the pattern that its first n bytes end with.
func (m *matcher) border(n int) int {
	if n == 0 {
		return 0
	}
	return int(m.fail[n-1])
}
