package redact

import "bytes"

// Filter blots a stream that is fed to it piece by piece.
type Filter struct {
	p *Patterns
	// sameLength writes as many asterisks as a secret has bytes, for a body
	// whose length was announced.
	sameLength bool

	tail   []byte // the latest bytes, as far as a secret may have begun in them
	gone   int    // how many of those have gone on already
	hidden int    // how many of those were part of a secret, and masked
	paused bool   // what is kept of tail stays, however long nothing follows
	spans  []span
	joined []byte // tail and piece
	out    []byte
}

// NewFilter returns a filter for one stream. With sameLength the stream is as
// long as it was, and otherwise masks do not tell how long a secret is.
func NewFilter(p *Patterns, sameLength bool) *Filter {
	return &Filter{p: p, sameLength: sameLength}
}

// Feed takes the next piece and returns what can go on. With last set
// everything does. The result is good until the next call.
func (f *Filter) Feed(piece []byte, last bool) []byte {
	f.paused = false
	b := piece
	if len(f.tail) > 0 {
		f.joined = append(append(f.joined[:0], f.tail...), piece...)
		b = f.joined
	}
	waiting := 0
	if !last {
		waiting = f.p.waiting(b)
	}
	return f.pass(b, waiting, waiting)
}

// Waits reports whether bytes wait that a pause lets go.
func (f *Filter) Waits() bool { return !f.paused && len(f.tail) > f.gone }

// Pause returns what goes on because nothing has followed it for some time: all
// but what is more than half of a secret. The result is good until the next
// call.
func (f *Filter) Pause() []byte {
	f.paused = true
	f.joined = append(f.joined[:0], f.tail...)
	return f.pass(f.joined, len(f.tail), f.p.begun(f.joined))
}

// pass returns b but for its last kept bytes, and remembers its last tail bytes.
func (f *Filter) pass(b []byte, tail, kept int) []byte {
	f.spans = f.spans[:0]
	if f.hidden > 0 {
		f.spans = append(f.spans, span{0, f.hidden})
	}
	f.spans = f.p.find(b, f.spans)
	end := max(f.reach(len(b)-kept), f.gone)
	out := f.render(b, end)
	start := len(b) - tail
	f.gone, f.hidden = max(end-start, 0), f.hiddenIn(start, end)
	f.tail = append(f.tail[:0], b[start:]...)
	return out
}

// reach moves an end on over what is masked anyhow.
func (f *Filter) reach(end int) int {
	for _, s := range f.spans {
		if s.from <= end && end < s.to {
			return s.to
		}
	}
	return end
}

// hiddenIn is how many bytes from start on belong to a secret that was masked
// before end.
func (f *Filter) hiddenIn(start, end int) int {
	n := 0
	for _, s := range f.spans {
		if s.from < end {
			n = max(s.to-start, 0)
		}
	}
	return n
}

// render is b from what has gone on already up to end, with masks.
func (f *Filter) render(b []byte, end int) []byte {
	at := f.gone
	if len(f.spans) == 0 {
		return b[at:end]
	}
	out := f.out[:0]
	for _, s := range f.spans {
		if s.from >= end || s.to <= at {
			continue
		}
		if s.from > at {
			out = append(out, b[at:s.from]...)
			at = s.from
		}
		to := min(s.to, end)
		switch {
		case f.sameLength:
			out = append(out, bytes.Repeat([]byte{'*'}, to-at)...)
		case s.from > 0 || f.hidden == 0: // else its mask has gone on already
			out = append(out, mask...)
		}
		at = to
	}
	f.out = append(out, b[at:end]...)
	return f.out
}
