package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const testSecret = "Bearer " + bareSecret

// keyed is a plain origin for every name. It remembers which of them were sent
// the credential, sends it back, and redirects at /away to where it is told.
type keyed struct {
	addr string

	mu   sync.Mutex
	sent []string
}

func newKeyed(t *testing.T) *keyed {
	k := &keyed{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == testSecret {
			k.mu.Lock()
			k.sent = append(k.sent, r.Host)
			k.mu.Unlock()
		}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprintf(w, "%s saw key %q, authorization %q", r.Host, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"))
	}))
	t.Cleanup(srv.Close)
	k.addr = strings.TrimPrefix(srv.URL, "http://")
	return k
}

// taken returns who was sent the credential since the last call.
func (k *keyed) taken() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := strings.Join(k.sent, " ")
	k.sent = nil
	return out
}

// inTheClear is a bench with a credential for api.test that may travel
// unencrypted to the given destinations.
func inTheClear(t *testing.T, k *keyed, cleartext ...string) *bench {
	return newBench(t, setup{
		config: egress.Config{
			Policy:    allow("api.test", "other.test"),
			Injection: []egress.InjectionGrant{{GrantID: uuid.New(), InjectionRule: egress.InjectionRule{Host: "api.test", Header: "X-Api-Key"}}},
		},
		node: egress.NodeConfig{Cleartext: cleartext}, needsCA: true,
		dns: map[string][][]string{"api.test": {{"93.184.216.34"}}, "other.test": {{"93.184.216.35"}}},
		tweak: func(o *Options) {
			o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", k.addr)
			}
		},
	})
}

// get makes a request with credentials of the sandbox's own.
func (b *bench) get(t *testing.T, target string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("GET", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer mine"}, "X-Api-Key": {"mine"}}
	resp, err := b.browser(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Without the operator's word nothing reaches the origin, on any port.
func TestG19NeverInTheClearUnasked(t *testing.T) {
	k := newKeyed(t)
	for name, b := range map[string]*bench{"no word": inTheClear(t, k), "a word for another port": inTheClear(t, k, "api.test:8081")} {
		for _, target := range []string{"http://api.test/", "http://api.test:8080/"} {
			if status, body := b.get(t, target); status != 403 || !strings.Contains(body, "builtin:cleartext-credential") {
				t.Errorf("%s, %s: %d %s", name, target, status, body)
			}
		}
		if b.resolver.queries() != 0 {
			t.Errorf("%s: G1: a query was sent", name)
		}
	}
	if got := k.taken(); got != "" {
		t.Errorf("sent to %s", got)
	}
}

// With it the credential goes to just that host and port, in the place of the
// sandbox's own, and does not come back.
func TestG19InTheClearByTheOperatorsWord(t *testing.T) {
	k := newKeyed(t)
	b := inTheClear(t, k, "api.test:8080")
	if status, body := b.get(t, "http://api.test:8080/"); status != 200 || strings.Contains(body, "mine") || strings.Contains(body, "test-secret") {
		t.Errorf("%d %s", status, body)
	}
	if got := k.taken(); got != "api.test:8080" {
		t.Errorf("sent to %q", got)
	}
	if r := b.records.verdicts(); len(r) == 0 || r[0].Flow.InjectedBy != "api.test" || r[0].Flow.MITM {
		t.Errorf("the record: %+v", r)
	}
	if status, body := b.get(t, "http://api.test/"); status != 403 {
		t.Errorf("port 80: %d %s", status, body)
	}
	if status, body := b.get(t, "http://other.test:8080/"); status != 200 || !strings.Contains(body, `key "mine", authorization "Bearer mine"`) {
		t.Errorf("another host: %d %s", status, body)
	}
	if got := k.taken(); got != "" {
		t.Errorf("sent to %q too", got)
	}
}

// A redirect takes it nowhere: the request after it is judged as any other.
func TestG19RedirectsCarryNoCredential(t *testing.T) {
	k := newKeyed(t)
	b := inTheClear(t, k, "api.test:8080")
	for to, want := range map[string]int{"http://other.test:8080/": 200, "http://api.test:9090/": 403, "http://unlisted.test:8080/": 403} {
		if status, body := b.get(t, "http://api.test:8080/?to="+to); status != want || strings.Contains(body, "test-secret") {
			t.Errorf("to %s: %d %s", to, status, body)
		}
		if got := k.taken(); got != "api.test:8080" {
			t.Errorf("to %s: sent to %q", to, got)
		}
	}
}

// The ways in that are in the clear are one: a proxy request, plain HTTP in a
// tunnel, and port 80 for clients that know no proxy.
func TestG19EveryWayInTheClear(t *testing.T) {
	for _, c := range []struct {
		name, cleartext string
		way             Way
		head            string
		want            bool
	}{
		{"tunnel", "api.test:8080", Explicit, "CONNECT api.test:8080 HTTP/1.1\r\nHost: x\r\n\r\n", true},
		{"tunnel, another port", "api.test:8081", Explicit, "CONNECT api.test:8080 HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"transparent", "api.test:80", TransparentHTTP, "", true},
		{"transparent, unasked", "", TransparentHTTP, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeyed(t)
			b := inTheClear(t, k, strings.Fields(c.cleartext)...)
			conn, err := net.Dial("tcp", b.listen(t, c.way))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			host := "api.test"
			if c.head != "" {
				host = "api.test:8080"
				io.WriteString(conn, c.head)
				if resp, err := http.ReadResponse(in, &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
					t.Fatalf("the tunnel: %v, %v", resp, err)
				}
			}
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Api-Key: mine\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := k.taken() != ""; got != c.want || (resp.StatusCode == 200) != c.want {
				t.Errorf("%s, sent %v", resp.Status, got)
			}
		})
	}
}
