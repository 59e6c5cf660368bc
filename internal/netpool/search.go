package netpool

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// span is an inclusive range of IPv4 addresses. 64 bits keep the arithmetic at
// the end of the address space free of overflow.
type span struct{ first, last uint64 }

func spanOf(p netip.Prefix) span {
	b := p.Masked().Addr().As4()
	first := uint64(binary.BigEndian.Uint32(b[:]))
	return span{first, first + 1<<(32-p.Bits()) - 1}
}

// firstFree is the lowest subnet of the given prefix length in rng that
// overlaps nothing in taken. One sweep over the sorted spans finds it.
func firstFree(rng netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	var spans []span
	for _, t := range taken {
		if t.Addr().Is4() && t.Overlaps(rng) {
			spans = append(spans, spanOf(t))
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	all, size := spanOf(rng), uint64(1)<<(32-bits)
	next := all.first
	for _, s := range spans {
		if s.first >= next+size {
			break // the gap before s is wide enough
		}
		if s.last >= next {
			next = (s.last/size + 1) * size
		}
	}
	if next+size-1 > all.last {
		return netip.Prefix{}, false
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(next))
	return netip.PrefixFrom(netip.AddrFrom4(b), bits), true
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, p.Overlaps)
}
