package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestE80WebSocketIsRelayed(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		h, _ := head(br)
		if !strings.Contains(h, "Upgrade: websocket\r\n") || !strings.Contains(h, "Connection: Upgrade\r\n") {
			t.Errorf("the upgrade was not offered: %q", h)
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst frame")
		io.Copy(c, br)
	})
	c := b.dial(t)
	c.send(t, "GET http://a.test/ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\nearly ")
	r := c.answer(t, "GET")
	if r.StatusCode != 101 || r.Header.Get("Sec-WebSocket-Accept") != "x" || r.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%s %v", r.Status, r.Header)
	}
	c.send(t, "frame")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got := c.ended(t); got != "first frameearly frame" {
		t.Errorf("relayed %q", got)
	}
	if !eventually(patience, func() bool { return len(b.records.ends()) == 1 }) {
		t.Fatal("no end record")
	}
	if d := b.records.ends()[0].Flow; d.BytesUp != 11 || d.BytesDown != 11 {
		t.Errorf("end record %+v", d)
	}
}

func TestE56HalfCloseIsPassedOn(t *testing.T) {
	b := scripted(t, allow("a.test:9+tcp"), func(c net.Conn, br *bufio.Reader) {
		all, _ := io.ReadAll(br) // until the client's end
		fmt.Fprintf(c, "got %q", all)
	})
	c := b.dial(t)
	c.send(t, "CONNECT a.test:9 HTTP/1.1\r\n\r\nquestion")
	if r := c.answer(t, "CONNECT"); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	c.Conn.(*net.TCPConn).CloseWrite()
	if got := c.ended(t); got != `got "question"` {
		t.Errorf("got %q", got)
	}
}

func TestE52ServerSpeaksFirstOnRawEntry(t *testing.T) {
	b := scripted(t, allow("a.test:25+tcp", "a.test"), func(c net.Conn, br *bufio.Reader) {
		io.WriteString(c, "220 ready\r\n")
		br.ReadString('\n')
	})
	c := b.dial(t)
	c.send(t, "CONNECT a.test:25 HTTP/1.1\r\n\r\n")
	c.answer(t, "CONNECT")
	if line, err := c.br.ReadString('\n'); err != nil || line != "220 ready\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestManyClientsShareThePool hands connections from request to request as
// fast as it goes; under the race detector it shows who still holds one.
func TestManyClientsShareThePool(t *testing.T) {
	b := scripted(t, allow("a.test", "b.test"), func(c net.Conn, br *bufio.Reader) {
		for {
			h, err := head(br)
			if err != nil {
				return
			}
			path := strings.Fields(h)[1]
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
		}
	})
	var wg sync.WaitGroup
	for n := range 16 {
		c := b.dial(t)
		wg.Go(func() {
			for i := range 100 {
				host, path := []string{"a.test", "b.test"}[i%2], fmt.Sprintf("/%d/%d", n, i)
				fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: x\r\n\r\n", host, path)
				r, err := http.ReadResponse(c.br, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if body, _ := io.ReadAll(r.Body); string(body) != path {
					t.Errorf("asked for %s, got %s", path, body)
					return
				}
			}
		})
	}
	wg.Wait()
}
