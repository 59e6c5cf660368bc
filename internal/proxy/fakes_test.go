package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// testCA is a certificate authority made for one test run.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  struct{ cert, key string }
}

func newCA(t testing.TB, name string) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca := &testCA{cert: cert, key: key}
	ca.pem.cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	ca.pem.key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk}))
	return ca
}

func (ca *testCA) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.cert)
	return p
}

// leaf makes a server certificate for a name, or for an address.
func (ca *testCA) leaf(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		tpl.IPAddresses = []net.IP{ip}
	} else {
		tpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// seenRequest is one request that the fake upstream read.
type seenRequest struct {
	line    string
	headers [][2]string
	body    []byte
	trailer http.Header
}

// values returns all values of a header; names compare without case.
func (r seenRequest) values(name string) []string {
	var out []string
	for _, h := range r.headers {
		if strings.EqualFold(h[0], name) {
			out = append(out, h[1])
		}
	}
	return out
}

// fakeUpstream plays every origin: it takes each dial, whatever the address.
type fakeUpstream struct {
	ca     *testCA
	refuse bool
	l      net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex
	dialed   []netip.AddrPort
	requests []seenRequest
	raw      [][]byte // bytes received, one entry per connection
	conns    []net.Conn
}

func newFakeUpstream(t testing.TB, ca *testCA) *fakeUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &fakeUpstream{ca: ca, l: l}
	u.wg.Add(1)
	go u.accept()
	t.Cleanup(func() {
		l.Close()
		u.mu.Lock()
		for _, c := range u.conns {
			c.Close()
		}
		u.mu.Unlock()
		u.wg.Wait()
	})
	return u
}

func (u *fakeUpstream) dial(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
	u.mu.Lock()
	u.dialed = append(u.dialed, ap)
	u.mu.Unlock()
	if u.refuse {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", u.l.Addr().String())
}

func (u *fakeUpstream) accept() {
	defer u.wg.Done()
	for {
		c, err := u.l.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns = append(u.conns, c)
		u.raw = append(u.raw, nil)
		at := len(u.raw) - 1
		u.mu.Unlock()
		u.wg.Add(1)
		go func() {
			defer func() { c.Close(); u.wg.Done() }()
			u.serve(&recordedConn{Conn: c, u: u, at: at})
		}()
	}
}

// recordedConn notes every byte that is read.
type recordedConn struct {
	net.Conn
	u  *fakeUpstream
	at int
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.u.mu.Lock()
	c.u.raw[c.at] = append(c.u.raw[c.at], p[:n]...)
	c.u.mu.Unlock()
	return n, err
}

type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.br.Read(p) }

func (u *fakeUpstream) serve(c net.Conn) {
	br := bufio.NewReaderSize(c, 256<<10)
	first, err := br.Peek(1)
	if err != nil {
		return
	}
	if first[0] != 0x16 {
		u.serveHTTP(c, br)
		return
	}
	tc := tls.Server(bufferedConn{c, br}, &tls.Config{
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := h.ServerName
			if name == "" {
				name = "8.8.8.8"
			}
			return u.ca.leaf(strings.ToLower(name))
		},
	})
	if tc.Handshake() == nil {
		u.serveHTTP(tc, bufio.NewReaderSize(tc, 256<<10))
	}
	io.Copy(io.Discard, br)
}

func (u *fakeUpstream) serveHTTP(c net.Conn, br *bufio.Reader) {
	for {
		seen, err := readHead(br)
		if err != nil {
			io.Copy(io.Discard, br)
			return
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			io.Copy(io.Discard, br)
			return
		}
		u.mu.Lock()
		u.requests = append(u.requests, seen)
		at := len(u.requests) - 1
		u.mu.Unlock()
		if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.requests[at].body, u.requests[at].trailer = body, req.Trailer
		u.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: X-Internal\r\nX-Internal: 1\r\n" +
			"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic realm=\"x\"\r\nX-Wardyn-Egress: forged\r\n\r\n"
		if req.Method != "HEAD" {
			answer += "ok"
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// readHead looks at a request head without consuming it.
func readHead(br *bufio.Reader) (seenRequest, error) {
	for n := 1; ; n = br.Buffered() + 1 {
		if _, err := br.Peek(n); err != nil {
			return seenRequest{}, err
		}
		b, _ := br.Peek(br.Buffered())
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		lines := strings.Split(string(b[:end]), "\r\n")
		seen := seenRequest{line: lines[0]}
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ":")
			seen.headers = append(seen.headers, [2]string{name, strings.TrimSpace(value)})
		}
		return seen, nil
	}
}

// fakeControl is a control plane that leaves approvals pending, resolves every
// injection and counts the calls that matter.
type fakeControl struct {
	srv    *httptest.Server
	client *controlplane.Client
	rules  map[uuid.UUID]egress.InjectionGrant

	mu     sync.Mutex
	called []string
}

func newFakeControl(t testing.TB, grants []egress.InjectionGrant) *fakeControl {
	t.Helper()
	f := &fakeControl{rules: map[uuid.UUID]egress.InjectionGrant{}}
	for _, g := range grants {
		f.rules[g.GrantID] = g
	}
	f.srv = httptest.NewServer(f)
	t.Cleanup(f.srv.Close)
	client, err := controlplane.New(f.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	client.SetToken("run-token-0123456789")
	f.client = client
	return f
}

func (f *fakeControl) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer run-token-0123456789" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, egress.PathInjection+"/"); ok {
		g := f.rules[uuid.MustParse(id)]
		json.NewEncoder(w).Encode(egress.ResolvedInjection{Host: g.Host, Header: g.Header, Value: "Bearer test-secret-0123456789"})
		return
	}
	if r.URL.Path == egress.PathDecisions || r.URL.Path == egress.PathRenew {
		io.WriteString(w, "{}")
		return
	}
	f.mu.Lock()
	f.called = append(f.called, r.Method+" "+r.URL.Path)
	f.mu.Unlock()
	switch {
	case r.URL.Path == egress.PathApprovals && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(egress.ApprovalRequest{ID: uuid.New(), Kind: "egress_domain", State: egress.ApprovalPending})
	case strings.HasPrefix(r.URL.Path, egress.PathApprovals+"/"):
		json.NewEncoder(w).Encode(egress.ApprovalRequest{ID: uuid.New(), Kind: "egress_domain", State: egress.ApprovalPending})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeControl) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.called...)
}

// records is a sink that keeps everything.
type records struct {
	mu  sync.Mutex
	all []egress.DecisionLog
}

func (r *records) Record(d egress.DecisionLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

// verdicts returns the verdict records; end records do not count.
func (r *records) verdicts() []egress.DecisionLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []egress.DecisionLog
	for _, d := range r.all {
		if d.Flow == nil || d.Flow.Kind == "decision" {
			out = append(out, d)
		}
	}
	return out
}

// ends returns the end records.
func (r *records) ends() []egress.DecisionLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []egress.DecisionLog
	for _, d := range r.all {
		if d.Flow != nil && d.Flow.Kind == "end" {
			out = append(out, d)
		}
	}
	return out
}

// bench is a proxy under test with everything round it.
type bench struct {
	srv      *Server
	addr     string
	upstream *fakeUpstream
	resolver *fakeResolver
	control  *fakeControl
	records  *records
	runCA    *testCA
	roots    *testCA
}

type setup struct {
	config   egress.Config
	node     egress.NodeConfig
	dns      map[string][][]string
	needsCA  bool
	refuse   bool
	tweak    func(*Options)
	upstream *fakeUpstream
}

var upstreamCA struct {
	once sync.Once
	ca   *testCA
}

func newBench(t testing.TB, in setup) *bench {
	t.Helper()
	b := &bench{records: &records{}, resolver: &fakeResolver{names: in.dns}}
	upstreamCA.once.Do(func() { upstreamCA.ca = newCA(t, "upstream test CA") })
	b.roots = upstreamCA.ca
	b.upstream = in.upstream
	if b.upstream == nil {
		b.upstream = newFakeUpstream(t, b.roots)
	}
	b.upstream.refuse = in.refuse
	in.config.RunID, in.config.RunToken = testRun.String(), "run-token-0123456789"
	b.control = newFakeControl(t, in.config.Injection)
	in.config.ControlPlaneURL = b.control.srv.URL
	if in.needsCA {
		b.runCA = newCA(t, "run CA")
		in.config.MITMCACertPEM, in.config.MITMCAKeyPEM = b.runCA.pem.cert, b.runCA.pem.key
	}
	o := Options{Config: in.config, Node: in.node, Resolver: b.resolver, Dial: b.upstream.dial, Roots: b.roots.pool(), Sink: b.records, Control: b.control.client}
	if in.tweak != nil {
		in.tweak(&o)
	}
	srv, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.srv = srv
	b.addr = b.listen(t, Explicit)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
	})
	return b
}

// listen opens one more way in and returns its address.
func (b *bench) listen(t testing.TB, way Way) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.srv.Serve(l, way) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-done; err != nil && !errors.Is(err, errShutdown) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

func withTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func quietSlog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func h1Request(target string) h1.Request {
	return h1.Request{Method: "GET", Target: target, Minor: 1, Host: "x", HasHost: true}
}
