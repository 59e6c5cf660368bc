// Package clienthello reads the first message of a TLS connection far enough
// to say for whom it is: the server name, and whether the real one is
// encrypted. It reads bytes and answers nothing.
package clienthello

import (
	"errors"
)

// MaxSize bounds the bytes of TLS records that may make up one ClientHello.
const MaxSize = 16 << 10

// Hello is what a ClientHello says.
type Hello struct {
	// ServerNames are the host names of the SNI extension, as sent.
	ServerNames []string
	// ECH: the encrypted_client_hello extension is there, genuine or greased.
	ECH bool
	// ALPN are the offered protocols.
	ALPN []string
}

var (
	// ErrShort asks for more bytes.
	ErrShort = errors.New("clienthello: more bytes needed")
	// ErrMalformed is a hello that does not parse, or is too large.
	ErrMalformed = errors.New("clienthello: malformed")
	// ErrBadSNI is a hello whose server name extension alone is broken.
	ErrBadSNI = errors.New("clienthello: malformed server name extension")
)

const (
	recordHandshake    = 0x16
	messageClientHello = 0x01
	extServerName      = 0
	extALPN            = 16
	extECH             = 0xfe0d
	maxRecord          = 16 << 10
)

// Parse reads a ClientHello from the start of b, across as many records as it
// takes. It returns ErrShort while b is a proper beginning of one.
func Parse(b []byte) (Hello, error) {
	msg, err := handshake(b)
	if err != nil {
		return Hello{}, err
	}
	return parseBody(msg)
}

// handshake joins the records of one handshake message and returns its body.
func handshake(b []byte) ([]byte, error) {
	var msg []byte
	want := -1
	for total := 0; ; {
		if len(b) < 5 {
			return nil, short(b, total)
		}
		n := int(b[3])<<8 | int(b[4])
		if b[0] != recordHandshake || b[1] != 3 || n == 0 || n > maxRecord {
			return nil, ErrMalformed
		}
		if total += 5 + n; total > MaxSize {
			return nil, ErrMalformed
		}
		frag := b[5:min(len(b), 5+n)]
		if msg == nil && len(frag) == n {
			msg = frag // the usual case: one record, no copy
		} else {
			msg = append(msg[:len(msg):len(msg)], frag...)
		}
		if want < 0 && len(msg) >= 4 {
			if msg[0] != messageClientHello {
				return nil, ErrMalformed
			}
			want = 4 + (int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3]))
			if want > MaxSize {
				return nil, ErrMalformed
			}
		}
		switch {
		case want >= 0 && len(msg) > want:
			return nil, ErrMalformed // something follows the hello in its record
		case want >= 0 && len(msg) == want:
			return msg[4:], nil
		case len(b) < 5+n:
			return nil, ErrShort
		}
		b = b[5+n:]
	}
}

// short tells a beginning from bytes that can never become a record.
func short(b []byte, total int) error {
	if total >= MaxSize || len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
		return ErrMalformed
	}
	return ErrShort
}

func parseBody(b []byte) (Hello, error) {
	r := reader{b: b}
	r.skip(2 + 32)     // version, random
	r.skip(r.uint8())  // session id
	r.skip(r.uint16()) // cipher suites
	r.skip(r.uint8())  // compression methods
	if r.bad {
		return Hello{}, ErrMalformed
	}
	if len(r.b) == 0 {
		return Hello{}, nil // no extensions at all
	}
	exts := reader{b: r.take(r.uint16())}
	if r.bad || len(r.b) != 0 {
		return Hello{}, ErrMalformed
	}
	return parseExtensions(exts)
}

func parseExtensions(exts reader) (Hello, error) {
	var h Hello
	var sniErr error
	seen := map[int]bool{}
	for len(exts.b) > 0 {
		typ := exts.uint16()
		data := exts.take(exts.uint16())
		if exts.bad || seen[typ] {
			return Hello{}, ErrMalformed
		}
		seen[typ] = true
		switch typ {
		case extServerName:
			h.ServerNames, sniErr = parseServerNames(data)
		case extALPN:
			h.ALPN = parseALPN(data)
		case extECH:
			h.ECH = true
		}
	}
	return h, sniErr
}

func parseServerNames(data []byte) ([]string, error) {
	outer := reader{b: data}
	list := reader{b: outer.take(outer.uint16())}
	if outer.bad || len(outer.b) != 0 || len(list.b) == 0 {
		return nil, ErrBadSNI
	}
	var names []string
	for len(list.b) > 0 {
		typ := list.uint8()
		name := list.take(list.uint16())
		if list.bad || typ != 0 || len(name) == 0 {
			return nil, ErrBadSNI
		}
		names = append(names, string(name))
	}
	return names, nil
}

func parseALPN(data []byte) []string {
	outer := reader{b: data}
	list := reader{b: outer.take(outer.uint16())}
	var out []string
	for len(list.b) > 0 {
		p := list.take(list.uint8())
		if list.bad {
			return nil
		}
		out = append(out, string(p))
	}
	return out
}

// reader takes big-endian fields off a slice and remembers that it ran out.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) uint8() int {
	if v := r.take(1); v != nil {
		return int(v[0])
	}
	return 0
}

func (r *reader) uint16() int {
	if v := r.take(2); v != nil {
		return int(v[0])<<8 | int(v[1])
	}
	return 0
}
