package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

func read(s string) (Request, error) { return ReadRequest(NewSource(strings.NewReader(s))) }

func TestReadRequest(t *testing.T) {
	req, err := read("POST http://a.test/x?y HTTP/1.1\r\nHost:  a.test \r\nX-Ä: \xc3\xa4\r\n\r\n")
	if err == nil {
		t.Error("a field name outside the token bytes is accepted")
	}
	req, err = read("POST http://a.test/x?y HTTP/1.1\r\nHost:  a.test \r\nX-A: \xc3\xa4\r\nContent-Length: 5\r\nConnection: x, close\r\n\r\nhello")
	if err != nil {
		t.Fatal(err)
	}
	if req.Method != "POST" || req.Target != "http://a.test/x?y" || req.Host != "a.test" || req.Length != 5 || !req.Close || req.Minor != 1 {
		t.Errorf("got %+v", req)
	}
	if v, _ := req.Fields.Get("x-a"); v != "\xc3\xa4" {
		t.Errorf("X-A = %q", v)
	}
}

// TestG17Refused: what two parsers could read differently has one reading here.
func TestG17Refused(t *testing.T) {
	const get = "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"
	tests := map[string]struct {
		in     string
		status int
	}{
		"E62 both lengths":           {get + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"E63 lengths differ":         {get + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n", 400},
		"E64 signed length":          {get + "Content-Length: +2\r\n\r\n", 400},
		"E65 list of lengths":        {get + "Content-Length: 2, 2\r\n\r\n", 400},
		"E65 unknown coding":         {get + "Transfer-Encoding: xchunked\r\n\r\n", 501},
		"E65 stacked codings":        {get + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"E65 chunked twice":          {get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		"empty length":               {get + "Content-Length:\r\n\r\n", 400},
		"length out of range":        {get + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		"chunks in HTTP/1.0":         {"POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"E67 folded line":            {get + "X-A: 1\r\n Content-Length: 5\r\n\r\n", 400},
		"E67 folded first line":      {"GET http://a.test/ HTTP/1.1\r\n X: 1\r\nHost: a.test\r\n\r\n", 400},
		"E68 bare LF":                {"GET http://a.test/ HTTP/1.1\nHost: a.test\n\n", 400},
		"E68 one bare LF":            {get + "X-A: 1\nX-B: 2\r\n\r\n", 400},
		"E69 bare CR":                {get + "X-A: 1\rX-B: 2\r\n\r\n", 400},
		"E69 NUL":                    {get + "X-A: a\x00b\r\n\r\n", 400},
		"E69 blank before the colon": {get + "Content-Length : 2\r\n\r\nhi", 400},
		"no colon":                   {get + "nonsense\r\n\r\n", 400},
		"empty field name":           {get + ": x\r\n\r\n", 400},
		"two blanks":                 {"GET  http://a.test/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"tab":                        {"GET\thttp://a.test/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"blank at the end":           {"GET http://a.test/ HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
		"HTTP/0.9":                   {"GET http://a.test/\r\n\r\n", 400},
		"E78 HTTP/2 preface":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		"HTTP/3.0":                   {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505},
		"HTTP/1.10":                  {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
		"lower-case version":         {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
		"E12 byte outside ASCII":     {"GET http://b\xc3\xbc.test/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"E4 NUL in the target":       {"CONNECT evil.test\x00.a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"two Host headers":           {get + "Host: b.test\r\n\r\n", 400},
		"no Host header":             {"GET http://a.test/ HTTP/1.1\r\n\r\n", 400},
		"E77 unknown expectation":    {get + "Expect: foo\r\n\r\n", 417},
		"an empty line first":        {"\r\n" + get + "\r\n", 400},
		"E82 long line":              {"GET http://a.test/" + strings.Repeat("a", 70000) + " HTTP/1.1\r\n\r\n", 414},
		"E82 long head":              {get + "X-A: " + strings.Repeat("a", 70000) + "\r\n\r\n", 431},
		"E82 many fields":            {get + strings.Repeat("a: b\r\n", 1000) + "\r\n", 431},
		"method that is no token":    {"G=T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"delete byte in a value":     {get + "X-A: \x7f\r\n\r\n", 400},
	}
	for name, tt := range tests {
		for _, one := range []bool{false, true} {
			var rd io.Reader = strings.NewReader(tt.in)
			if one {
				rd = iotest.OneByteReader(rd)
			}
			_, err := ReadRequest(NewSource(rd))
			var he *Error
			if !errors.As(err, &he) || he.Status != tt.status {
				t.Errorf("%s (byte by byte %t): got %v, want status %d", name, one, err, tt.status)
			}
		}
	}
}

func TestIncompleteHeadIsNoRequest(t *testing.T) {
	if _, err := read(""); !errors.Is(err, io.EOF) {
		t.Errorf("nothing at all: %v", err)
	}
	if _, err := read("GET / HT"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a head: %v", err)
	}
	if _, err := read("CONNECT a.test:443 HTTP/1.1\r\n\r\n"); err != nil {
		t.Errorf("CONNECT without Host: %v", err)
	}
	if _, err := read("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n"); err != nil {
		t.Errorf("equal lengths: %v", err)
	}
}

func TestSourceKeepsWhatFollows(t *testing.T) {
	s := NewSource(strings.NewReader("CONNECT a.test:443 HTTP/1.1\r\n\r\n\x16\x03early"))
	if _, err := ReadRequest(s); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(s)
	if err != nil || string(rest) != "\x16\x03early" {
		t.Errorf("got %q, %v", rest, err)
	}
}

// FuzzReadRequest holds the parser to net/http: what is accepted here is read
// the same way there, so it is never wider.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("CONNECT a.test:443 HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		src := NewSource(bytes.NewReader(b))
		req, err := ReadRequest(src)
		if err != nil {
			return
		}
		std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			var ue *url.Error
			if errors.As(err, &ue) || strings.Contains(err.Error(), "invalid URI") || strings.Contains(err.Error(), "invalid URL") ||
				strings.Contains(err.Error(), "malformed Host") || strings.Contains(err.Error(), "url") || strings.Contains(err.Error(), "invalid method") {
				return // judged later, from the bytes
			}
			t.Fatalf("accepted %q, net/http says %v", b, err)
		}
		length := std.ContentLength
		if length < 0 {
			length = LengthChunked
		}
		if std.Method != req.Method || std.RequestURI != req.Target || length != req.Length {
			t.Fatalf("%q: %s %q %d here, %s %q %d there", b, req.Method, req.Target, req.Length, std.Method, std.RequestURI, length)
		}
		mine, merr := io.ReadAll(NewBody(src, req.Length))
		theirs, terr := io.ReadAll(std.Body)
		if merr == nil && (terr != nil || !bytes.Equal(mine, theirs)) {
			t.Fatalf("%q: body %q here, %q (%v) there", b, mine, theirs, terr)
		}
	})
}
