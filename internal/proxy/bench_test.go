package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// audited gives a bench the log of the real program, without anybody to post to.
func audited(b *testing.B) func(*Options) {
	return func(o *Options) {
		log := audit.New(b.Context(), audit.Options{Out: io.Discard, Logger: quietSlog()})
		b.Cleanup(func() { log.Close(b.Context()) })
		o.Sink = log
	}
}

func BenchmarkPlainKeepAlive(b *testing.B) {
	body := make([]byte, 1024)
	x := scripted(b, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		answer := append([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"), body...)
		for {
			if _, err := head(br); err != nil {
				return
			}
			c.Write(answer)
		}
	})
	audited(b)(&x.srv.o)
	c := x.dial(b)
	b.ReportAllocs()
	for b.Loop() {
		c.send(b, "GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
		r := c.answer(b, "GET")
		io.Copy(io.Discard, r.Body)
	}
}

func BenchmarkConnect(b *testing.B) {
	hello := clientHello(b, "a.test")
	x := scripted(b, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		io.ReadFull(br, make([]byte, len(hello)))
		c.Write(make([]byte, 1024))
	})
	audited(b)(&x.srv.o)
	b.ReportAllocs()
	for b.Loop() {
		c := x.dial(b)
		c.send(b, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n")
		c.answer(b, "CONNECT")
		c.Write(hello)
		io.Copy(io.Discard, c.br)
		c.Close()
	}
}

func BenchmarkJudge(b *testing.B) {
	x := newBench(b, setup{config: egress.Config{Policy: allow("*.a.test", "b.test:443", "c.test")}})
	b.ReportAllocs()
	for b.Loop() {
		x.srv.admit(b.Context(), ask{host: "x.y.a.test", port: 443, method: http.MethodConnect})
	}
}

// clientHello returns the bytes of a real ClientHello for a name.
func clientHello(b *testing.B, name string) []byte {
	b.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() { tls.Client(near, &tls.Config{ServerName: name}).Handshake(); near.Close() }()
	buf := make([]byte, 16<<10)
	n, err := far.Read(buf)
	if err != nil {
		b.Fatal(err)
	}
	return buf[:n]
}
