package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

type wireCase struct {
	ID     string              `json:"id"`
	Policy types.RunPolicySpec `json:"policy"`
	Config struct {
		MITMHosts []string                `json:"mitm_hosts"`
		MITMLLM   bool                    `json:"mitm_llm"`
		Injection []egress.InjectionGrant `json:"injection"`
		GitGrants map[string]uuid.UUID    `json:"git_grants"`
	} `json:"config"`
	DNS      map[string]answerLists `json:"dns"`
	Upstream string                 `json:"upstream"`
	Send     wireBytes              `json:"send"`
	Then     *wireThen              `json:"then"`
	Want     wireWant               `json:"want"`
	Why      string                 `json:"why"`
}

type wireThen struct {
	Raw       wireBytes `json:"raw"`
	Split     int       `json:"split"`
	TLSSNI    *string   `json:"tls_sni"`
	InnerHost string    `json:"inner_host"`
	InnerSend wireBytes `json:"inner_send"`
	ALPN      []string  `json:"alpn"`
}

type wireWant struct {
	Status          oneOf                      `json:"status"`
	Reason          string                     `json:"reason_contains"`
	Body            string                     `json:"body_contains"`
	ClientHeader    map[string]any             `json:"client_saw_header"`
	Statuses        []int                      `json:"statuses"`
	Responses       *int                       `json:"responses"`
	Closed          *bool                      `json:"closed"`
	Then            oneOf                      `json:"then"`
	TLSPeer         string                     `json:"tls_peer"`
	Decision        string                     `json:"decision"`
	Source          oneOf                      `json:"source"`
	Sources         []string                   `json:"sources"`
	UpstreamDialed  *bool                      `json:"upstream_dialed"`
	Dialed          []string                   `json:"dialed"`
	DNSQueried      *bool                      `json:"dns_queried"`
	ControlCalled   *bool                      `json:"control_plane_called"`
	UpstreamReqs    *int                       `json:"upstream_requests"`
	UpstreamLine    string                     `json:"upstream_saw_line"`
	UpstreamHeader  map[string]*string         `json:"upstream_saw_header"`
	UpstreamBody    *wireBytes                 `json:"upstream_saw_body"`
	UpstreamTrailer map[string]json.RawMessage `json:"upstream_saw_trailer"`
}

// answerLists is a list of addresses, or a list of such lists.
type answerLists [][]string

func (a *answerLists) UnmarshalJSON(b []byte) error {
	var one []string
	if json.Unmarshal(b, &one) == nil {
		*a = answerLists{one}
		return nil
	}
	return json.Unmarshal(b, (*[][]string)(a))
}

// wireSilence is how long a proxy that has said all it should is listened to
// before it counts as silent.
const wireSilence = 6 * time.Second

func TestWireCases(t *testing.T) {
	eachCase(t, "wire-", func(t *testing.T, c wireCase) {
		t.Parallel()
		dns := map[string][][]string{}
		for name, lists := range c.DNS {
			dns[name] = lists
		}
		b := newBench(t, setup{
			config:  egress.Config{Policy: c.Policy, MITMHosts: c.Config.MITMHosts, MITMLLM: c.Config.MITMLLM, Injection: c.Config.Injection, GitGrants: c.Config.GitGrants},
			dns:     dns,
			needsCA: c.Config.MITMHosts != nil || c.Config.MITMLLM,
			refuse:  c.Upstream == "refuse",
		})
		w := &wireRun{c: c, b: b}
		w.run(t)
		w.check(t)
	})
}

// wireRun is one case under way.
type wireRun struct {
	c    wireCase
	b    *bench
	conn net.Conn
	br   *bufio.Reader

	gotBytes bool // anything came at all
	first    *http.Response
	body     []byte
	statuses []int
	closed   bool
	then     []any // outcomes that came true
	tlsPeer  string
}

func (w *wireRun) run(t *testing.T) {
	conn, err := net.Dial("tcp", w.b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w.conn, w.br = conn, bufio.NewReader(conn)
	go conn.Write(w.c.Send) // a proxy that refuses early may not read it all
	connect := bytes.HasPrefix(w.c.Send, []byte("CONNECT "))
	method, _, _ := strings.Cut(string(w.c.Send[:min(len(w.c.Send), 40)]), " ")
	w.first, w.body = w.answer(method, patience)
	if w.first != nil {
		w.statuses = append(w.statuses, w.first.StatusCode)
	}
	if connect && w.first != nil && w.first.StatusCode == 200 {
		w.tunnel(t)
		return
	}
	if w.c.Want.Statuses != nil || w.c.Want.Responses != nil || w.c.Want.Closed != nil {
		for !w.closed {
			r, _ := w.answer("GET", w.due())
			if r == nil {
				break
			}
			w.statuses = append(w.statuses, r.StatusCode)
		}
	}
}

// due is how long the next answer, or the end of the connection, is waited for.
func (w *wireRun) due() time.Duration {
	want := w.c.Want
	more := len(w.statuses) < len(want.Statuses) || want.Responses != nil && len(w.statuses) < *want.Responses
	if more || want.Closed != nil && *want.Closed {
		return patience
	}
	return wireSilence
}

// answer reads the next final answer, or nil when none comes within the time.
func (w *wireRun) answer(method string, within time.Duration) (*http.Response, []byte) {
	for {
		w.conn.SetReadDeadline(time.Now().Add(within))
		if _, err := w.br.Peek(1); err != nil {
			w.closed = !isTimeout(err)
			return nil, nil
		}
		w.gotBytes = true
		r, err := http.ReadResponse(w.br, &http.Request{Method: method})
		if err != nil {
			w.closed = !isTimeout(err)
			return nil, nil
		}
		if r.StatusCode < 200 && r.StatusCode != 101 {
			continue
		}
		if method == "CONNECT" && r.StatusCode == 200 {
			return r, nil
		}
		body, _ := io.ReadAll(r.Body)
		return r, body
	}
}

func (w *wireRun) tunnel(t *testing.T) {
	head := bytes.Index(w.c.Send, []byte("\r\n\r\n")) + 4
	sent := append([]byte(nil), w.c.Send[head:]...)
	if w.c.Then != nil && w.c.Then.TLSSNI != nil {
		w.tlsInside(t)
		return
	}
	if w.c.Then != nil {
		sent = append(sent, w.c.Then.Raw...)
		writeSplit(w.conn, w.c.Then.Raw, w.c.Then.Split)
	}
	switch {
	case w.c.Want.Then.has("relayed"):
		w.awaitRelay(t, sent)
	case w.c.Want.Then.has("close"):
		w.awaitClose(t)
	case w.c.Want.Then != nil:
		if r, _ := w.answer("GET", patience); r != nil {
			w.then = append(w.then, r.StatusCode)
		}
	}
}

func writeSplit(c net.Conn, b []byte, n int) {
	if n <= 0 {
		c.Write(b)
		return
	}
	for len(b) > 0 {
		k := min(n, len(b))
		if _, err := c.Write(b[:k]); err != nil {
			return
		}
		b = b[k:]
		time.Sleep(time.Millisecond)
	}
}

func (w *wireRun) awaitRelay(t *testing.T, want []byte) {
	eventually(patience, func() bool { return bytes.Equal(w.received(), want) })
	time.Sleep(20 * time.Millisecond) // nothing more may follow
	if got := w.received(); bytes.Equal(got, want) {
		w.then = append(w.then, "relayed")
	} else {
		t.Logf("upstream received %q, want %q", got, want)
	}
}

func (w *wireRun) received() []byte {
	w.b.upstream.mu.Lock()
	defer w.b.upstream.mu.Unlock()
	return bytes.Join(w.b.upstream.raw, nil)
}

func (w *wireRun) awaitClose(t *testing.T) {
	w.conn.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(w.br)
	switch {
	case isTimeout(err):
		t.Logf("the connection is still open")
	case len(rest) > 0 && rest[0] != 0x15:
		t.Logf("the client read %q", rest)
	case len(w.received()) > 0:
		t.Logf("upstream received %q", w.received())
	default:
		w.then = append(w.then, "close")
	}
}

func (w *wireRun) tlsInside(t *testing.T) {
	cfg := &tls.Config{InsecureSkipVerify: true, ServerName: *w.c.Then.TLSSNI, NextProtos: w.c.Then.ALPN}
	w.conn.SetDeadline(time.Now().Add(patience))
	tc := tls.Client(bufferedConn{w.conn, w.br}, cfg)
	if err := tc.Handshake(); err != nil {
		t.Logf("TLS inside: %v", err)
		if len(w.received()) == 0 && !isTimeout(err) {
			w.then = append(w.then, "close")
		}
		return
	}
	w.tlsPeer = "upstream"
	if w.b.runCA != nil && tc.ConnectionState().PeerCertificates[0].CheckSignatureFrom(w.b.runCA.cert) == nil {
		w.tlsPeer = "proxy"
	}
	send := []byte(w.c.Then.InnerSend)
	if send == nil {
		send = []byte("GET / HTTP/1.1\r\nHost: " + w.c.Then.InnerHost + "\r\nConnection: close\r\n\r\n")
	}
	if _, err := tc.Write(send); err != nil {
		t.Logf("write inside: %v", err)
	}
	method, _, _ := strings.Cut(string(send), " ")
	w.conn, w.br = tc, bufio.NewReader(tc)
	if r, body := w.answer(method, patience); r != nil {
		w.then = append(w.then, r.StatusCode)
		if w.body == nil {
			w.body = body
		}
	}
}

// patience bounds what a test waits for; nothing is measured against it.
const patience = time.Minute

func eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}
