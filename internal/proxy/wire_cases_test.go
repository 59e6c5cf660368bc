package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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

const silence2s = 2 * time.Second

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
	w.first, w.body = w.answer(method)
	if w.first != nil {
		w.statuses = append(w.statuses, w.first.StatusCode)
	}
	if connect && w.first != nil && w.first.StatusCode == 200 {
		w.tunnel(t)
		return
	}
	if w.c.Want.Statuses != nil || w.c.Want.Responses != nil || w.c.Want.Closed != nil {
		for !w.closed {
			r, _ := w.answer("GET")
			if r == nil {
				break
			}
			w.statuses = append(w.statuses, r.StatusCode)
		}
	}
}

// answer reads the next final answer, or nil.
func (w *wireRun) answer(method string) (*http.Response, []byte) {
	for {
		w.conn.SetReadDeadline(time.Now().Add(silence2s))
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
		if r, _ := w.answer("GET"); r != nil {
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
	eventually(silence2s, func() bool { return bytes.Equal(w.received(), want) })
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
	w.conn.SetReadDeadline(time.Now().Add(silence2s))
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
	w.conn.SetDeadline(time.Now().Add(silence2s))
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
	if r, body := w.answer(method); r != nil {
		w.then = append(w.then, r.StatusCode)
		if w.body == nil {
			w.body = body
		}
	}
}

func eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

func (w *wireRun) check(t *testing.T) {
	t.Helper()
	for _, problem := range []func() string{w.checkAnswer, w.checkThen, w.checkUpstream, w.checkCalls} {
		if p := problem(); p != "" {
			t.Errorf("%s (%s)", p, w.c.Why)
		}
	}
	var p string
	if !eventually(time.Second, func() bool { p = w.checkRecords(); return p == "" }) {
		t.Errorf("%s (%s)", p, w.c.Why)
	}
}

func (w *wireRun) checkAnswer() string {
	want := w.c.Want
	switch {
	case w.first == nil && !w.gotBytes && w.closed:
		if !want.Status.has("close") {
			return fmt.Sprintf("closed without a byte, want status %v", want.Status)
		}
	case w.first == nil:
		return "no answer"
	case !want.Status.has(w.first.StatusCode):
		return fmt.Sprintf("status %s, want %v", w.first.Status, want.Status)
	case !strings.Contains(w.first.Status, want.Reason):
		return fmt.Sprintf("status line %q does not contain %q", w.first.Status, want.Reason)
	case !strings.Contains(string(w.body), want.Body):
		return fmt.Sprintf("body %q does not contain %q", w.body, want.Body)
	}
	if want.Statuses != nil && !slices.Equal(w.statuses, want.Statuses) {
		return fmt.Sprintf("statuses %v, want %v", w.statuses, want.Statuses)
	}
	if want.Responses != nil && len(w.statuses) != *want.Responses {
		return fmt.Sprintf("%d answers, want %d", len(w.statuses), *want.Responses)
	}
	if want.Closed != nil && w.closed != *want.Closed {
		return fmt.Sprintf("closed %t, want %t", w.closed, *want.Closed)
	}
	return w.checkClientHeader()
}

func (w *wireRun) checkClientHeader() string {
	for name, want := range w.c.Want.ClientHeader {
		got, there := w.first.Header[http.CanonicalHeaderKey(name)]
		switch v := want.(type) {
		case nil:
			if there {
				return fmt.Sprintf("the client saw %s: %q", name, got)
			}
		case bool:
			if !there {
				return fmt.Sprintf("the client did not see %s", name)
			}
		default:
			if len(got) != 1 || got[0] != v {
				return fmt.Sprintf("the client saw %s: %q, want %q", name, got, v)
			}
		}
	}
	return ""
}

func (w *wireRun) checkThen() string {
	if w.c.Want.Then != nil && !slices.ContainsFunc(w.then, w.c.Want.Then.has) {
		return fmt.Sprintf("in the tunnel %v, want %v", w.then, w.c.Want.Then)
	}
	if w.c.Want.TLSPeer != "" && w.tlsPeer != w.c.Want.TLSPeer {
		return fmt.Sprintf("TLS ended by %q, want %q", w.tlsPeer, w.c.Want.TLSPeer)
	}
	return ""
}

func (w *wireRun) checkCalls() string {
	want := w.c.Want
	if q := w.b.resolver.queries(); want.DNSQueried != nil && (q > 0) != *want.DNSQueried {
		return fmt.Sprintf("%d DNS queries, want queried %t", q, *want.DNSQueried)
	}
	if calls := w.b.control.calls(); want.ControlCalled != nil && (len(calls) > 0) != *want.ControlCalled {
		return fmt.Sprintf("control plane calls %v, want called %t", calls, *want.ControlCalled)
	}
	return ""
}

func (w *wireRun) checkUpstream() string {
	want, u := w.c.Want, w.b.upstream
	u.mu.Lock()
	defer u.mu.Unlock()
	var dialed []string
	for _, a := range u.dialed {
		if !slices.Contains(dialed, a.String()) {
			dialed = append(dialed, a.String())
		}
	}
	slices.Sort(dialed)
	slices.Sort(want.Dialed)
	switch {
	case want.UpstreamDialed != nil && (len(dialed) > 0) != *want.UpstreamDialed:
		return fmt.Sprintf("dialed %v, want dialed %t", dialed, *want.UpstreamDialed)
	case want.Dialed != nil && !slices.Equal(dialed, want.Dialed):
		return fmt.Sprintf("dialed %v, want %v", dialed, want.Dialed)
	case want.UpstreamReqs != nil && len(u.requests) != *want.UpstreamReqs:
		return fmt.Sprintf("upstream read %d requests, want %d", len(u.requests), *want.UpstreamReqs)
	}
	return w.checkSeen(u.requests)
}

func (w *wireRun) checkSeen(requests []seenRequest) string {
	want := w.c.Want
	for name, value := range want.UpstreamHeader {
		if value == nil {
			for _, r := range requests {
				if len(r.values(name)) > 0 {
					return fmt.Sprintf("upstream saw %s: %q", name, r.values(name))
				}
			}
			continue
		}
		if len(requests) == 0 || !slices.Equal(requests[0].values(name), []string{*value}) {
			return fmt.Sprintf("upstream saw %v, want %s: %q", requests, name, *value)
		}
	}
	if want.UpstreamLine == "" && want.UpstreamBody == nil && want.UpstreamTrailer == nil {
		return ""
	}
	if len(requests) == 0 {
		return "upstream saw no request"
	}
	r := requests[0]
	if want.UpstreamLine != "" && r.line != want.UpstreamLine {
		return fmt.Sprintf("upstream saw %q, want %q", r.line, want.UpstreamLine)
	}
	if want.UpstreamBody != nil && !bytes.Equal(r.body, *want.UpstreamBody) {
		return fmt.Sprintf("upstream saw body %q, want %q", r.body, *want.UpstreamBody)
	}
	for name := range want.UpstreamTrailer {
		if _, there := r.trailer[http.CanonicalHeaderKey(name)]; there {
			return "upstream saw trailer " + name
		}
	}
	return ""
}

func (w *wireRun) checkRecords() string {
	want := w.c.Want
	got := w.b.records.verdicts()
	var sources []string
	for _, d := range got {
		sources = append(sources, d.RuleSource)
	}
	if want.Sources != nil && !slices.Equal(sources, want.Sources) {
		return fmt.Sprintf("sources %v, want %v", sources, want.Sources)
	}
	if len(got) == 0 {
		if want.Decision != "" {
			return "no record"
		}
		return ""
	}
	last := got[len(got)-1]
	if want.Decision == "" {
		if want.Sources == nil && last.Decision != egress.Deny {
			return fmt.Sprintf("last record %s %s, want a deny or none", last.Decision, last.RuleSource)
		}
		return ""
	}
	if string(last.Decision) != want.Decision || want.Source != nil && !want.Source.has(last.RuleSource) {
		return fmt.Sprintf("last record %s %s, want %s %v", last.Decision, last.RuleSource, want.Decision, want.Source)
	}
	return ""
}
