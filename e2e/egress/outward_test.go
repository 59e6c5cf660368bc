package egress

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// corporate is an upstream proxy that wants credentials.
type corporate struct {
	mu   sync.Mutex
	seen []string
}

const (
	proxyUser     = "wardyn"
	proxyPassword = "the-upstream-proxy-s-password"
)

func (c *corporate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Proxy-Authorization")
	r.Header.Set("Authorization", auth)
	user, password, _ := r.BasicAuth()
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.RequestURI)
	c.mu.Unlock()
	if user != proxyUser || password != proxyPassword {
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
		return
	}
	fmt.Fprintf(w, "by the corporate proxy: %s", r.URL)
}

func (c *corporate) requests() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.seen, "\n")
}

// TestOperatorsWayOut: requests leave through the operator's proxy, what no
// list speaks of is learnt, every record is copied, and a list comes of it.
func TestOperatorsWayOut(t *testing.T) {
	dir := t.TempDir()
	auth, audit := filepath.Join(dir, "auth"), filepath.Join(dir, "audit")
	if err := os.WriteFile(auth, []byte(proxyUser+":"+proxyPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, corp := testenv.Listen(t, pool, 3129), &corporate{}
	srv := &http.Server{Handler: corp, ReadHeaderTimeout: 10 * time.Second}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	collector := &sink{}
	otlp := httptest.NewServer(collector)
	t.Cleanup(otlp.Close)
	r := newRig(t, map[string]any{
		"otlp":           []any{map[string]any{"url": otlp.URL}},
		"upstream_proxy": []any{map[string]any{"url": "http://" + l.Addr().String(), "credentials_file": auth}},
		"allow_learn":    true, "audit_dir": audit, "deny_domains": []any{"*.beyond.example"},
	})
	w := r.start(t, "CC1", map[string]any{"egress": []any{map[string]any{"learn": true, "allow": []any{"known.example.com"}}}})
	out := w.sh(t, "/bin/client http://known.example.com/a; /bin/client http://new.example.com/b; /bin/client http://a.beyond.example/; /bin/client http://api.example.internal:8080/direct")
	for _, want := range []string{"by the corporate proxy: http://known.example.com/a", "by the corporate proxy: http://new.example.com/b", "policy:denied", "hello from api.example.internal:8080/direct"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if got := corp.requests(); strings.Contains(got, "beyond") || strings.Contains(got, "direct") {
		t.Errorf("the proxy was sent: %s", got)
	}
	w.holdsNone(t, out, proxyPassword)
	w.recorded(t, "known.example.com", "new.example.com", "a.beyond.example", "api.example.internal")
	suggested, err := exec.CommandContext(deadline(t), r.binary, "egress", "suggest", filepath.Join(w.Dir().Dir, "wardyn", "decisions.jsonl")).CombinedOutput()
	if err != nil {
		t.Errorf("suggest: %v\n%s", err, suggested)
	}
	for _, want := range []string{`"known.example.com",`, `"new.example.com:80",`, `"api.example.internal:8080",`, "left out: a.beyond.example:80"} {
		if !strings.Contains(string(suggested), want) {
			t.Errorf("%q is not in %s", want, suggested)
		}
	}
	eventually(t, "the records at the collector", func() bool {
		got := collector.text()
		return strings.Contains(got, "wardyn.egress.decision") && strings.Contains(got, "new.example.com") && strings.Contains(got, "would be denied") && strings.Contains(got, "nomad.job.id")
	})
	if strings.Contains(collector.text(), proxyPassword) {
		t.Error("the collector was sent the upstream proxy's password")
	}
	eventually(t, "the copy", func() bool {
		var copied strings.Builder // of two days when midnight has passed
		days, _ := filepath.Glob(filepath.Join(audit, "*.jsonl"))
		for _, day := range days {
			b, _ := os.ReadFile(day)
			copied.Write(b)
		}
		got := copied.String()
		return strings.Contains(got, `"job":"job"`) && strings.Contains(got, "new.example.com") && strings.Contains(got, "would be denied")
	})
}

// sink stands in for a collector and keeps what it is sent.
type sink struct {
	mu   sync.Mutex
	sent strings.Builder
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	io.Copy(&s.sent, r.Body)
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.String()
}

// TestExternalControlPlane: somebody else's control plane decides, and is sent
// the records; the sandbox's sidecar never speaks to it.
func TestExternalControlPlane(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token-of-the-node\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if got := r.Header.Get("Authorization"); got != "Bearer the-token-of-the-node" {
			t.Errorf("%s %s: Authorization %q", r.Method, r.URL, got)
		}
		seen[r.Method+" "+r.URL.Path]++
		json.NewEncoder(w).Encode(map[string]any{"id": "22222222-2222-4222-8222-222222222222", "state": "APPROVED", "decided_by": "the control plane"})
	}))
	t.Cleanup(srv.Close)
	r := newRig(t, map[string]any{"approvals": "external", "control_plane": []any{map[string]any{"url": srv.URL, "token_file": token}}})
	w := r.start(t, "CC1", review("deny_with_review"))
	if got := w.sh(t, askNew); !strings.Contains(got, approved) {
		t.Errorf("approved elsewhere: %s", got)
	}
	w.holdsNone(t, "", "the-token-of-the-node")
	eventually(t, "the records", func() bool { mu.Lock(); defer mu.Unlock(); return seen["POST /api/v1/internal/decisions"] >= 2 })
	mu.Lock()
	defer mu.Unlock()
	if seen["POST /api/v1/internal/approvals"] != 1 {
		t.Errorf("calls %v", seen)
	}
}
