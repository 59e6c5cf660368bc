package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// call is one request as the stand-in saw it.
type call struct {
	line, auth, contentType, body string
}

// standIn is a control plane that notes every call and answers from a table.
type standIn struct {
	mu      sync.Mutex
	calls   []call
	answers map[string]string // "METHOD path" to "status body"
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := r.Method + " " + r.URL.RequestURI()
	s.mu.Lock()
	s.calls = append(s.calls, call{line, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)})
	answer, ok := s.answers[line]
	s.mu.Unlock()
	if !ok {
		answer = "404 {}"
	}
	status, text, _ := strings.Cut(answer, " ")
	var code int
	fmt.Sscan(status, &code)
	if code == 302 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(code)
	io.WriteString(w, text)
}

func (s *standIn) last(t *testing.T) call {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		t.Fatal("no call")
	}
	return s.calls[len(s.calls)-1]
}

// overEverything runs a test over http and over a unix socket.
func overEverything(t *testing.T, answers map[string]string, test func(t *testing.T, c *Client, s *standIn)) {
	for _, scheme := range []string{"http", "unix"} {
		t.Run(scheme, func(t *testing.T) {
			s := &standIn{answers: answers}
			srv := httptest.NewUnstartedServer(s)
			target := ""
			if scheme == "unix" {
				dir, err := os.MkdirTemp("", "control") // the test's own folder may have a # in its name
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(dir) })
				path := filepath.Join(dir, "c.sock")
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				srv.Listener.Close()
				srv.Listener = l
				target = "unix://" + path
			}
			srv.Start()
			t.Cleanup(srv.Close)
			if target == "" {
				target = srv.URL + "/"
			}
			c, err := New(target)
			if err != nil {
				t.Fatal(err)
			}
			c.SetToken("token-1")
			test(t, c, s)
		})
	}
}

var id = uuid.MustParse("22222222-2222-4222-8222-222222222222")

func TestReferenceCalls(t *testing.T) {
	overEverything(t, map[string]string{
		"GET /api/v1/internal/config":                   `200 {"proxy":{}}`,
		"POST /api/v1/internal/ready":                   `204 `,
		"POST /api/v1/internal/decisions":               `202 {}`,
		"GET /api/v1/internal/injection/" + id.String(): `200 {"host":"api.test","header":"X-Key","value":"secret","jti":"j","expires_at":7}`,
		"POST /api/v1/internal/approvals":               `201 {"id":"` + id.String() + `","state":"PENDING"}`,
		"GET /api/v1/internal/approvals/" + id.String(): `200 {"id":"` + id.String() + `","state":"APPROVED"}`,
		"POST /api/v1/internal/credentials/mint":        `200 {"token":"minted","expires_at":9}`,
		"POST /api/v1/internal/token/renew":             `200 {"token":"token-2","expires_at":"2030-01-02T03:04:05Z"}`,
	}, func(t *testing.T, c *Client, s *standIn) {
		ctx := t.Context()
		if raw, err := c.Config(ctx); err != nil || string(raw) != `{"proxy":{}}` {
			t.Errorf("Config: %s, %v", raw, err)
		}
		if err := c.Ready(ctx); err != nil || s.last(t).auth != "Bearer token-1" {
			t.Errorf("Ready: %v, %+v", err, s.last(t))
		}
		for range 3 {
			if err := c.Decisions(ctx, []byte(`{"request":{}}`)); err != nil {
				t.Errorf("Decisions: %v", err)
			}
		}
		if got := s.last(t); got.body != `{"request":{}}` || got.contentType != "application/json" || got.auth != "Bearer token-1" {
			t.Errorf("decision: %+v", got)
		}
		if err := c.Decisions(ctx, []byte("{}\n{}")); err != nil || s.last(t).contentType != "application/x-ndjson" {
			t.Errorf("batch: %v, %+v", err, s.last(t))
		}
		if got, err := c.Injection(ctx, id); err != nil || got.Value != "secret" || got.ExpiresAt != 7 {
			t.Errorf("Injection: %+v, %v", got, err)
		}
		got, err := c.Raise(ctx, id, egress.ApprovalScope{Host: "new.test", Port: 443, Mode: types.WaitForReview})
		if err != nil || got.ID != id {
			t.Errorf("Raise: %+v, %v", got, err)
		}
		var raised map[string]any
		if err := json.Unmarshal([]byte(s.last(t).body), &raised); err != nil || raised["kind"] != "egress_domain" || fmt.Sprint(raised["requested_scope"]) != "map[host:new.test mode:wait_for_review port:443]" {
			t.Errorf("P39: raised %v", raised)
		}
		if got, err := c.Approval(ctx, id); err != nil || got.State != egress.ApprovalApproved {
			t.Errorf("Approval: %+v, %v", got, err)
		}
		if got, err := c.Mint(ctx, id); err != nil || got.Token != "minted" || !strings.Contains(s.last(t).body, id.String()) {
			t.Errorf("Mint: %+v, %v", got, err)
		}
		if end, err := c.Renew(ctx); err != nil || end.Year() != 2030 {
			t.Errorf("Renew: %v, %v", end, err)
		}
		c.Ready(ctx)
		if got := s.last(t).auth; got != "Bearer token-2" { // B2: read at call time
			t.Errorf("after renewal: %s", got)
		}
		c.Decisions(ctx, []byte("{}"))
		if got := s.last(t).auth; got != "Bearer token-2" {
			t.Errorf("decision after renewal: %s", got)
		}
	})
}

func TestAnswersThatAreNoSuccess(t *testing.T) {
	for status, rejected := range map[int]bool{302: false, 400: true, 401: false, 404: false, 413: true, 422: true, 500: false, 503: false} {
		overEverything(t, map[string]string{"POST /api/v1/internal/decisions": fmt.Sprintf("%d {}", status), "POST /api/v1/internal/ready": fmt.Sprintf("%d {}", status)},
			func(t *testing.T, c *Client, s *standIn) {
				err := c.Decisions(t.Context(), []byte("{}"))
				var se *StatusError
				if !errors.As(err, &se) || se.Status != status || errors.Is(err, audit.ErrRejected) != rejected {
					t.Errorf("%d: %v", status, err)
				}
				if err := c.Ready(t.Context()); !errors.As(err, &se) {
					t.Errorf("%d: %v", status, err)
				}
				for _, got := range s.calls {
					if strings.Contains(got.line, "elsewhere") {
						t.Errorf("a redirect was followed with the token: %+v", got)
					}
				}
			})
	}
	overEverything(t, map[string]string{"POST /api/v1/internal/token/renew": "200 {}", "POST /api/v1/internal/credentials/mint": "200 {}"}, func(t *testing.T, c *Client, _ *standIn) {
		if _, err := c.Renew(t.Context()); err == nil {
			t.Error("a renewal without a token is taken")
		}
		if _, err := c.Mint(t.Context(), id); err == nil {
			t.Error("a minting without a token is taken")
		}
	})
}

// TestDecisionsSurviveAnIdleClose: the plugin closes kept connections.
func TestDecisionsSurviveAnIdleClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	s := &standIn{answers: map[string]string{"POST /api/v1/internal/decisions": "200 {}"}}
	start := func() *http.Server {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: s}
		go srv.Serve(l)
		return srv
	}
	srv := start()
	c, err := New("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Decisions(t.Context(), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		srv.Close()
		srv = start()
	}
	srv.Close()
	if err := c.Decisions(t.Context(), []byte("{}")); err == nil {
		t.Error("delivered to nobody")
	}
}

func TestDecisionsEndWithTheirContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts in the backlog and never answers
	c, err := New("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { time.Sleep(20 * time.Millisecond); cancel() }()
	start := time.Now()
	if err := c.Decisions(ctx, []byte("{}")); err == nil {
		t.Error("delivered")
	}
	if d := time.Since(start); d >= decisionTimeout { // it ends then without a context, too
		t.Errorf("took %v", d)
	}
}

func TestBadURLs(t *testing.T) {
	for _, u := range []string{"", "x", "ftp://h", "http://", "http://user:pw@h", "http://h?q", "unix://", "unix://host/path", "unix:", "unix:///x#y", "http://h#y", "://"} {
		if _, err := New(u); err == nil {
			t.Errorf("%q is accepted", u)
		} else if strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the error holds the password: %v", u, err)
		}
	}
}

// renewer is a control plane in memory.
type renewer struct {
	mu    sync.Mutex
	times []time.Time
	life  time.Duration
	fail  bool
}

func (r *renewer) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
	if r.fail {
		return nil, errors.New("away")
	}
	body := fmt.Sprintf(`{"token":"token-%d-long-enough","expires_at":%q}`, len(r.times), time.Now().Add(r.life).Format(time.RFC3339))
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

// TestP62RenewedInTime: when a token is renewed, by how long it is good.
func TestP62RenewedInTime(t *testing.T) {
	for _, tt := range []struct {
		life, every time.Duration
		fail        bool
	}{
		{20 * time.Minute, 10 * time.Minute, false}, // half of what is left
		{10 * time.Second, time.Minute, false},      // not more often than each minute
		{10 * time.Hour, 30 * time.Minute, false},   // not more seldom than each half hour
		{time.Hour, time.Minute, true},              // after a failure
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &renewer{life: tt.life, fail: tt.fail}
			c := newClient("http://control", r)
			c.SetToken("old")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { c.KeepRenewed(ctx, &audit.Mask{}, slog.New(slog.DiscardHandler)); close(done) }()
			time.Sleep(3*tt.every + tt.every/2)
			synctest.Wait()
			r.mu.Lock()
			n := len(r.times)
			r.mu.Unlock()
			if n != 4 {
				t.Errorf("%+v: %d renewals in three and a half periods, want 4", tt, n)
			}
			if got := c.bearer(); tt.fail && got != "old" || !tt.fail && got != "token-4-long-enough" {
				t.Errorf("%+v: token %s", tt, got)
			}
			cancel()
			<-done
		})
	}
}
