package h1

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestChunkedBody(t *testing.T) {
	const in = "4;ext=\"x\"\r\nabcd\r\n1\r\ne\r\n0\r\nX-T: 1\r\n\r\nnext"
	for _, one := range []bool{false, true} {
		var rd io.Reader = strings.NewReader(in)
		if one {
			rd = iotest.OneByteReader(rd)
		}
		src := NewSource(rd)
		body := NewBody(src, LengthChunked)
		got, err := io.ReadAll(body)
		if err != nil || string(got) != "abcde" || !body.Done() {
			t.Errorf("got %q, %v", got, err)
		}
		if v, _ := body.Trailers.Get("x-t"); v != "1" {
			t.Errorf("trailers %v", body.Trailers)
		}
		if rest, _ := io.ReadAll(src); string(rest) != "next" {
			t.Errorf("behind the body: %q", rest)
		}
	}
}

func TestE66BadChunks(t *testing.T) {
	for _, in := range []string{
		"0x2\r\nhi\r\n0\r\n\r\n", "-2\r\nhi\r\n", "+2\r\nhi\r\n", "\r\nhi\r\n", "2\nhi\r\n0\r\n\r\n", "2;a\nb\r\nhi\r\n",
		"2\r\nhi!\r\n0\r\n\r\n", "2\r\nhi\n0\r\n\r\n", "2 \r\nhi\r\n0\r\n\r\n", " 2\r\nhi\r\n0\r\n\r\n", "1000000000000000\r\nhi", "2;\x00\r\nhi\r\n",
		"0\r\nX : 1\r\n\r\n", "0\r\n X: 1\r\n\r\n", "2\rx\r\nhi\r\n", strings.Repeat("0", 5000) + "\r\n",
	} {
		_, err := io.ReadAll(NewBody(NewSource(strings.NewReader(in)), LengthChunked))
		var he *Error
		if !errors.As(err, &he) {
			t.Errorf("%.30q: %v, want a refusal", in, err)
		}
	}
	for _, in := range []string{"", "2", "2\r\n", "2\r\nh", "2\r\nhi", "2\r\nhi\r\n0\r\n"} {
		_, err := io.ReadAll(NewBody(NewSource(strings.NewReader(in)), LengthChunked))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v, want unexpected EOF", in, err)
		}
	}
}

func TestCountedBody(t *testing.T) {
	src := NewSource(strings.NewReader("abcdefg"))
	body := NewBody(src, 5)
	got, err := io.ReadAll(body)
	if err != nil || string(got) != "abcde" || !body.Done() {
		t.Errorf("got %q, %v", got, err)
	}
	if rest, _ := io.ReadAll(src); string(rest) != "fg" {
		t.Errorf("behind the body: %q", rest)
	}
	if _, err := io.ReadAll(NewBody(NewSource(strings.NewReader("abc")), 5)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short body: %v", err)
	}
	if b := NewBody(src, 0); !b.Done() {
		t.Error("an empty body is not done")
	}
}

func TestAppendChunkRoundTrip(t *testing.T) {
	var wire []byte
	wire = AppendChunk(wire, []byte("hello"))
	wire = AppendChunk(wire, bytes.Repeat([]byte("x"), 300))
	wire = AppendLastChunk(wire, Fields{{"X-T", "1"}})
	body := NewBody(NewSource(bytes.NewReader(wire)), LengthChunked)
	got, err := io.ReadAll(body)
	if err != nil || len(got) != 305 || len(body.Trailers) != 1 {
		t.Errorf("%d bytes, %v, trailers %v", len(got), err, body.Trailers)
	}
}

func TestReadResponse(t *testing.T) {
	tests := []struct {
		in, method string
		length     int64
		close      bool
		bad        bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", 5, false, false},
		{"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", "GET", 5, false, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", 0, false, false},
		{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", 0, false, false}, // E74
		{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "GET", 0, false, false},
		{"HTTP/1.1 200 OK\r\n\r\n", "GET", LengthUntilClose, true, false},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", "GET", 1, true, false},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", "GET", 1, false, false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", LengthChunked, false, false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "GET", LengthChunked, true, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "GET", 0, false, true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "GET", 0, false, true},
		{"HTTP/2.0 200 OK\r\n\r\n", "GET", 0, false, true},
		{"HTTP/1.1 20 OK\r\n\r\n", "GET", 0, false, true},
		{"HTTP/1.1 2xx OK\r\n\r\n", "GET", 0, false, true},
		{"HTTP/1.1 200 O\x01K\r\n\r\n", "GET", 0, false, true},
		{"ICY 200 OK\r\n\r\n", "GET", 0, false, true},
		{"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", "GET", 0, false, true}, // E81
	}
	for _, tt := range tests {
		r, err := ReadResponse(NewSource(strings.NewReader(tt.in)), tt.method)
		if (err != nil) != tt.bad {
			t.Errorf("%q: %v, want refused %t", tt.in, err, tt.bad)
			continue
		}
		if err == nil && (r.Length != tt.length || r.Close != tt.close) {
			t.Errorf("%q: length %d close %t, want %d %t", tt.in, r.Length, r.Close, tt.length, tt.close)
		}
	}
}
