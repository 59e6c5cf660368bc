package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const nodeSecret = "the-secret-of-the-node"

// mayCall reports whether a call is by whom the token says, as a control plane
// that knows the secret finds out, and whether it speaks for that run only.
func mayCall(r *http.Request, body string) bool {
	run, sum, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	mac := hmac.New(sha256.New, []byte(nodeSecret))
	mac.Write([]byte(run))
	got, err := hex.DecodeString(sum)
	return ok && err == nil && hmac.Equal(got, mac.Sum(nil)) && (r.Method == http.MethodGet || strings.Contains(body, run))
}

// P48: with tokens of their own, runs that call at one time speak each for
// itself; without, the node's token is sent as it is.
func TestP48TokensOfRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(nodeSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, own := range []bool{true, false} {
		var mu sync.Mutex
		calls := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			calls++
			plain := r.Header.Get("Authorization") == "Bearer "+nodeSecret
			if own && !mayCall(r, string(body)) || own == plain {
				t.Errorf("%s %s with %q: %s", r.Method, r.URL, r.Header.Get("Authorization"), body)
			}
			fmt.Fprintf(w, `{"id":%q,"state":"PENDING"}`, uuid.NewString())
		}))
		t.Cleanup(srv.Close)
		e, err := newExternal(&plugin.ControlPlaneConfig{URL: srv.URL, TokenFile: file, PerRunTokens: own}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				run := uuid.New()
				_, raise := e.Raise(t.Context(), run, egress.ApprovalScope{Host: "a.example", Port: 443})
				_, read := e.Approval(t.Context(), run, uuid.New())
				record := e.Decisions(t.Context(), run, fmt.Appendf(nil, `{"request":{"RunID":%q}}`, run))
				if raise != nil || read != nil || record != nil {
					t.Errorf("%v, %v, %v", raise, read, record)
				}
			})
		}
		wg.Wait()
		if calls != 24 {
			t.Errorf("%d calls", calls)
		}
	}
}
