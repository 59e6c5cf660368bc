package egress

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// events sends one event and then nothing until the client leaves: a proxy that
// waits for the end of an answer never shows it.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: the first event\n\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// shout answers a WebSocket's first text with the same in capitals.
func shout(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	rw.Flush()
	text, err := readFrame(rw.Reader)
	if err != nil {
		return
	}
	text = strings.ToUpper(text)
	rw.Write(append([]byte{0x81, byte(len(text))}, text...))
	rw.Flush()
	io.Copy(io.Discard, rw)
}

// readFrame reads a masked text frame of less than 126 bytes.
func readFrame(from *bufio.Reader) (string, error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(from, head); err != nil {
		return "", err
	}
	b := make([]byte, head[1]&0x7f)
	_, err := io.ReadFull(from, b)
	for i := range b {
		b[i] ^= head[2+i%4]
	}
	return string(b), err
}

const node = "/usr/bin/node"

const (
	nodeFetch = `fetch("https://api.example.internal/v1").then(async r => console.log(r.status, await r.text()))`
	nodeSSE   = `fetch("https://api.example.internal/events").then(async r => { const {value} = await r.body.getReader().read(); console.log(Buffer.from(value).toString()); process.exit(0) })`
	nodeWS    = `const t = Buffer.from("hello over a websocket"); require("https").request({host: "api.example.internal", path: "/shout", headers: {Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": 13, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}}).on("upgrade", (r, s) => { s.write(Buffer.concat([Buffer.from([0x81, 0x80 | t.length, 0, 0, 0, 0]), t])); s.on("data", d => { console.log(d.toString()); process.exit(0) }) }).end()`
)

// TestRealClients: programs that are told nothing work with policy alone, also
// those that ignore the proxy variables, on a host whose TLS is opened.
func TestRealClients(t *testing.T) {
	files := testenv.Programs(t, "/usr/bin/curl", "/usr/bin/wget")
	_, err := os.Stat(node)
	if err == nil {
		maps.Copy(files, testenv.Programs(t, node))
	}
	r := newRigWith(t, files, map[string]any{"allow_intercept": []any{"api.example.internal"}})
	r.memory = 512
	r.up.mux.HandleFunc("/events", events)
	r.up.mux.HandleFunc("/shout", shout)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, map[string]any{"egress": []any{map[string]any{
			"allow": []any{"api.example.internal"}, "intercept": []any{"api.example.internal"},
		}}})
		for _, c := range []struct{ name, script, want string }{
			{"curl", "curl -sS https://api.example.internal/v1", "hello from api.example.internal/v1"},
			{"curl, refused", "curl -sS https://blocked.example/ 2>&1", "CONNECT tunnel failed, response 403"},
			{"curl without proxy", "curl -sS --noproxy '*' https://api.example.internal/v1", "hello from api.example.internal/v1"},
			{"wget", "/usr/bin/wget -q -O - http://api.example.internal:8080/v1", "hello from api.example.internal:8080/v1"},
			{"node fetch", "node -e '" + nodeFetch + "'", "200 hello from api.example.internal/v1"},
			{"node, first event of a stream", "node -e '" + nodeSSE + "'", "the first event"},
			{"node websocket", "node -e '" + nodeWS + "'", "HELLO OVER A WEBSOCKET"},
		} {
			t.Run(c.name, func(t *testing.T) {
				if err != nil && strings.HasPrefix(c.name, "node") {
					t.Skipf("no node on this machine to put into the image: %v", err)
				}
				if got := w.sh(t, c.script+" 2>&1"); !strings.Contains(got, c.want) {
					t.Error(got)
				}
			})
		}
	})
}
