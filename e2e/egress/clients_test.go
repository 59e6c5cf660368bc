package egress

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// events sends one event, the time it was sent at in milliseconds, and then
// nothing until the client leaves: a proxy that waits for the end of an answer
// never shows it.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: the first event, of %d\n\n", time.Now().UnixMilli())
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

const (
	nodeFetch = `fetch("https://api.example.internal/v1").then(async r => console.log(r.status, await r.text()))`
	nodeSSE   = `fetch("https://api.example.internal/events").then(async r => { const {value} = await r.body.getReader().read(); const now = Date.now(), text = Buffer.from(value).toString(); console.log(text, "arrived after", now - Number(text.match(/[0-9]+/)[0]), "ms"); process.exit(0) })`
	nodeWS    = `const t = Buffer.from("hello over a websocket"); require("https").request({host: "api.example.internal", path: "/shout", headers: {Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": 13, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}}).on("upgrade", (r, s) => { s.write(Buffer.concat([Buffer.from([0x81, 0x80 | t.length, 0, 0, 0, 0]), t])); s.on("data", d => { console.log(d.toString()); process.exit(0) }) }).end()`
	pyRequest = `from pip._vendor import requests; r = requests.get("https://api.example.internal/v1"); print(r.status_code, r.text)`
	pyRefused = `from pip._vendor import requests; requests.get("https://blocked.example/")`
	pyUrllib  = `import urllib.request as u; print(u.urlopen("https://api.example.internal/v1").read().decode())`
	npm       = "cd /tmp && npm install --prefix /tmp/app --registry https://api.example.internal/npm/ --no-audit --no-fund --loglevel error @acme/demo && cd /tmp/app && node -p 'require(\"@acme/demo\")'"
	pip       = "python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target /tmp/site --index-url https://api.example.internal/simple/ demo && PYTHONPATH=/tmp/site python3 -c 'import demo; print(demo.word)'"
)

// realClients are commands in a sandbox, what they print, and the toolchains
// that they need.
var realClients = []struct{ name, needs, script, want string }{
	{"curl", "", "curl -sS https://api.example.internal/v1", "hello from api.example.internal/v1"},
	{"curl, refused", "", "curl -sS https://blocked.example/", "CONNECT tunnel failed, response 403"},
	{"curl without proxy", "", "curl -sS --noproxy '*' https://api.example.internal/v1", "hello from api.example.internal/v1"},
	{"wget", "", "/usr/bin/wget -q -O - http://api.example.internal:8080/v1", "hello from api.example.internal:8080/v1"},
	{"gRPC", "", "/bin/grpcclient api.example.internal:443", "status: SERVING"},
	{"gRPC, refused", "", "/bin/grpcclient blocked.example:443", "egress denied: blocked.example:443 policy:default-deny"},
	{"node fetch", "node", "node -e '" + nodeFetch + "'", "200 hello from api.example.internal/v1"},
	{"node, first event of a stream", "node", "node -e '" + nodeSSE + "'", "the first event"},
	{"node websocket", "node", "node -e '" + nodeWS + "'", "HELLO OVER A WEBSOCKET"},
	{"npm install", "node npm", npm, "demo from npm"},
	{"python urllib", "python", "python3 -c '" + pyUrllib + "'", "hello from api.example.internal/v1"},
	{"python requests", "python pip", "python3 -c '" + pyRequest + "'", "200 hello from api.example.internal/v1"},
	{"python requests, refused", "python pip", "python3 -c '" + pyRefused + "'", "egress denied: blocked.example:443 policy:default-deny"},
	{"pip install", "python pip", pip, "demo from pip"},
}

// serveClients has the upstream speak everything that the clients want.
func (u *upstream) serveClients(t *testing.T) *npmRegistry {
	registry, server, state := newNPMRegistry(t), grpc.NewServer(), health.NewServer()
	state.SetServingStatus("demo", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, state)
	t.Cleanup(server.Stop)
	u.mux.HandleFunc("/events", events)
	u.mux.HandleFunc("/shout", shout)
	u.mux.Handle("/npm/", registry)
	u.mux.Handle("/simple/", pipIndex(t))
	u.mux.Handle("/cargo/", cargoIndex(t))
	u.mux.Handle("/apt/", aptArchive())
	u.mux.Handle("/grpc.health.v1.Health/", server)
	return registry
}

// TestRealClients: programs that are told nothing work with policy alone, also
// those that ignore the proxy variables, on a host whose TLS is opened.
func TestRealClients(t *testing.T) {
	tools := findToolchains(t)
	grpcClient, err := os.ReadFile(testenv.Build(t, "./e2e/egress/testdata/grpcclient"))
	if err != nil {
		t.Fatal(err)
	}
	tools.files["bin/grpcclient"] = string(grpcClient)
	r := newRigWith(t, tools.files, map[string]any{"allow_intercept": []any{"api.example.internal"}})
	r.memory = 768
	registry := r.up.serveClients(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, map[string]any{"egress": []any{map[string]any{
			"allow": []any{opened, tunnel}, "intercept": []any{opened},
		}}})
		for _, c := range realClients {
			t.Run(c.name, func(t *testing.T) {
				tools.need(t, c.needs)
				got := w.sh(t, c.script+" 2>&1")
				if !strings.Contains(got, c.want) {
					t.Error(got)
				}
				if strings.Contains(c.name, "stream") {
					t.Log(strings.TrimSpace(got))
				}
			})
		}
		if paths := registry.paths(); tools.missing["npm"] == nil && !slices.Contains(paths, "/npm/@acme%2fdemo") {
			t.Errorf("E91: the registry was asked for %v", paths)
		}
		w.trust(t, tools)
	})
}
