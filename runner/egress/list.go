package egress

import (
	"errors"
	"fmt"
	"strings"
)

// List is a set of entries made for matching. The zero List matches nothing.
// A List is not changed after it was built, so readers need no lock.
type List struct {
	exact map[Host][]Entry
	wild  map[string][]Entry
	n     int
}

// NewList builds a list of entries.
func NewList(entries ...Entry) List {
	l := List{exact: map[Host][]Entry{}, wild: map[string][]Entry{}, n: len(entries)}
	for _, e := range entries {
		if e.Wildcard {
			l.wild[e.Host.name] = append(l.wild[e.Host.name], e)
		} else {
			l.exact[e.Host] = append(l.exact[e.Host], e)
		}
	}
	return l
}

// ParseList reads every entry with parse and joins all faults into one error.
func ParseList(entries []string, parse func(string) (Entry, error)) (List, error) {
	var ok []Entry
	var errs []error
	for _, s := range entries {
		e, err := parse(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ok = append(ok, e)
	}
	return NewList(ok...), errors.Join(errs...)
}

// Empty reports whether the list has no entry.
func (l List) Empty() bool { return l.n == 0 }

// Find returns the entry that covers host and port: the exact host before a
// wildcard, a near wildcard before a far one. An entry with +tcp goes before
// all others, since someone wrote it for just this port.
func (l List) Find(h Host, port uint16) (Entry, bool) {
	best, ok := pick(l.exact[h], port)
	for rest := h.name; !best.TCP; {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if e, hit := pick(l.wild[rest], port); hit && (!ok || e.TCP) {
			best, ok = e, true
		}
	}
	return best, ok
}

// HasExact reports whether the list names just this host, bare or with this port.
func (l List) HasExact(h Host, port uint16) bool {
	_, ok := pick(l.exact[h], port)
	return ok
}

// Covers reports whether one entry of the list covers all that e can match.
func (l List) Covers(e Entry) bool {
	for _, c := range l.exact[e.Host] {
		if c.Covers(e) {
			return true
		}
	}
	for rest := "." + e.Host.name; rest != ""; {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		for _, c := range l.wild[rest] {
			if c.Covers(e) {
				return true
			}
		}
	}
	return false
}

// pick returns the entry for a port among entries for one host: bare before
// port-qualified, +tcp before both.
func pick(entries []Entry, port uint16) (Entry, bool) {
	var best Entry
	ok := false
	for _, e := range entries {
		if e.Port != 0 && e.Port != port {
			continue
		}
		if !ok || e.TCP && !best.TCP || e.Port == 0 && !best.TCP {
			best, ok = e, true
		}
	}
	return best, ok
}

// CheckCeiling reports why an author's allow entry goes beyond the operator's
// ceiling, or nil. An empty ceiling is none. Every host and port that the
// entry can match must be matched by one entry of the ceiling, and a raw
// tunnel needs a ceiling entry that says +tcp.
func CheckCeiling(entry string, ceiling []string) error {
	e, err := ParseAllow(entry)
	if err != nil {
		return err
	}
	if len(ceiling) == 0 {
		return nil
	}
	list, err := ParseList(ceiling, ParseCeiling)
	if err != nil {
		return fmt.Errorf("operator's ceiling: %w", err)
	}
	if list.Covers(e) {
		return nil
	}
	if plain := (Entry{Wildcard: e.Wildcard, Host: e.Host, Port: e.Port}); e.TCP && list.Covers(plain) {
		return fmt.Errorf("allow entry %q: the operator's ceiling covers %s but no raw tunnel to it; the ceiling entry must say +tcp",
			entry, strings.TrimSuffix(lowerASCII(e.text), "+tcp"))
	}
	return fmt.Errorf("allow entry %q is beyond the operator's ceiling (%s)", entry, strings.Join(ceiling, ", "))
}

// RawPorts returns what the sidecar listens for on behalf of clients that know
// no proxy: each port of an exact allow entry with +tcp, and the host behind
// it. Such a client names no host, so two hosts on one port are an error. Ports
// that the sidecar serves itself are left out, and so are wildcards.
func RawPorts(allow []string) (map[uint16]Host, error) {
	out := map[uint16]Host{}
	var errs []error
	for _, s := range allow {
		e, err := ParseAllow(s)
		if err != nil || !e.TCP || e.Wildcard || ownPort(e.Port) {
			continue // faults of entries are somebody else's to name
		}
		if h, taken := out[e.Port]; taken && h != e.Host {
			errs = append(errs, fmt.Errorf("allow entry %q: port %d already belongs to %s; of the entries with +tcp only one host can have a port", s, e.Port, h))
			continue
		}
		out[e.Port] = e.Host
	}
	return out, errors.Join(errs...)
}

// ownPort reports ports that the sidecar itself listens on.
func ownPort(p uint16) bool { return p == 53 || p == 80 || p == 443 || p == 3128 }
