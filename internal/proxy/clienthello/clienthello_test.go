package clienthello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// capture returns the bytes of a real ClientHello.
func capture(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	c, s := net.Pipe()
	defer s.Close()
	cfg.InsecureSkipVerify = true
	go func() {
		tls.Client(c, cfg).Handshake()
		c.Close()
	}()
	s.SetReadDeadline(time.Now().Add(time.Minute))
	head := make([]byte, 5)
	if _, err := io.ReadFull(s, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(s, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

func TestParseRealHello(t *testing.T) {
	b := capture(t, &tls.Config{ServerName: "allowed.test", NextProtos: []string{"h2", "http/1.1"}})
	h, err := Parse(b)
	if err != nil || !slices.Equal(h.ServerNames, []string{"allowed.test"}) || !slices.Equal(h.ALPN, []string{"h2", "http/1.1"}) || h.ECH {
		t.Errorf("got %+v, %v", h, err)
	}
	for n := range b {
		if _, err := Parse(b[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("the first %d of %d bytes: %v, want ErrShort", n, len(b), err)
		}
	}
}

func TestE44NoServerName(t *testing.T) {
	h, err := Parse(capture(t, &tls.Config{ServerName: "8.8.8.8"}))
	if err != nil || len(h.ServerNames) != 0 {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestHelloAcrossRecords(t *testing.T) {
	b := capture(t, &tls.Config{ServerName: "allowed.test"})
	var split []byte
	for body := b[5:]; len(body) > 0; {
		n := min(7, len(body))
		split = append(split, 0x16, 3, 1, 0, byte(n))
		split = append(split, body[:n]...)
		body = body[n:]
	}
	h, err := Parse(split)
	if err != nil || !slices.Equal(h.ServerNames, []string{"allowed.test"}) {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestE45ECH(t *testing.T) {
	b := capture(t, &tls.Config{ServerName: "allowed.test"})
	h, err := Parse(withExtension(b, 0xfe0d, []byte{0, 1, 2}))
	if err != nil || !h.ECH {
		t.Errorf("got %+v, %v", h, err)
	}
}

// withExtension appends one extension to a hello in one record.
func withExtension(b []byte, typ int, data []byte) []byte {
	ext := append([]byte{byte(typ >> 8), byte(typ), byte(len(data) >> 8), byte(len(data))}, data...)
	out := append(slices.Clone(b), ext...)
	at := 5 + 4 + 2 + 32
	at += 1 + int(out[at])
	at += 2 + int(out[at])<<8 + int(out[at+1])
	at += 1 + int(out[at])
	add := func(i, n int) { v := int(out[i])<<8 + int(out[i+1]) + n; out[i], out[i+1] = byte(v>>8), byte(v) }
	add(at, len(ext))
	add(7, len(ext))
	add(3, len(ext))
	return out
}

func TestMalformedHellos(t *testing.T) {
	good := capture(t, &tls.Config{ServerName: "allowed.test"})
	edit := func(f func(b []byte) []byte) []byte { return f(slices.Clone(good)) }
	tests := map[string][]byte{
		"plain text":            []byte("GET / HTTP/1.1\r\n\r\n"),
		"another message":       edit(func(b []byte) []byte { b[5] = 2; return b }),
		"SSLv2 style version":   edit(func(b []byte) []byte { b[1] = 2; return b }),
		"empty record":          {0x16, 3, 1, 0, 0},
		"huge record":           {0x16, 3, 1, 0xff, 0xff},
		"huge message":          {0x16, 3, 1, 0, 4, 1, 1, 0, 0},
		"bytes behind the body": edit(func(b []byte) []byte { b[4]++; return append(b, 0) }),
		"twice the extension":   withExtension(withExtension(good, 0x1234, nil), 0x1234, nil),
		"session id too long":   edit(func(b []byte) []byte { b[5+4+2+32] = 255; return b }),
	}
	for name, b := range tests {
		if h, err := Parse(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %+v, %v; want ErrMalformed", name, h, err)
		}
	}
	sni := bytes.Index(good, []byte("allowed.test"))
	broken := edit(func(b []byte) []byte { b[sni-1] = 200; return b })
	if _, err := Parse(broken); !errors.Is(err, ErrBadSNI) {
		t.Errorf("broken server name: %v, want ErrBadSNI", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(capture(f, &tls.Config{ServerName: "allowed.test", NextProtos: []string{"h2"}}))
	f.Add([]byte{0x16, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if err == nil && len(b) > 0 && stdlibName(b) != nil && len(h.ServerNames) == 1 {
			if name := *stdlibName(b); name != "" && name != h.ServerNames[0] {
				t.Fatalf("crypto/tls reads %q, we read %q", name, h.ServerNames[0])
			}
		}
		if errors.Is(err, ErrShort) && len(b) > MaxSize+5 {
			t.Fatalf("still asking for more after %d bytes", len(b))
		}
	})
}

// stdlibName is the server name that crypto/tls reads, or nil when it reads none.
func stdlibName(b []byte) *string {
	var got *string
	c, s := net.Pipe()
	go func() { c.Write(b); c.Close() }()
	go io.Copy(io.Discard, c)
	tls.Server(s, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name := h.ServerName
		got = &name
		return nil, errors.New("seen enough")
	}}).Handshake()
	s.Close()
	return got
}
