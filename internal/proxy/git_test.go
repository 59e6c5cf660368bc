package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var gitGrant = uuid.MustParse("22222222-2222-4222-8222-222222222222")

// mintControl mints a numbered token at each call.
type mintControl struct {
	pendingControl
	mu    sync.Mutex
	mints int
	fail  bool
}

func (m *mintControl) Mint(_ context.Context, grant uuid.UUID) (egress.MintedCredential, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail || grant != gitGrant {
		return egress.MintedCredential{}, errors.New("no")
	}
	m.mints++
	return egress.MintedCredential{Token: "minted-token-" + strings.Repeat("x", m.mints)}, nil
}

// gitServer is a real smart HTTP server over TLS with one bare repository, and
// a proxy whose grant opens it.
type gitServer struct {
	*bench
	control *mintControl
	repo    string

	mu     sync.Mutex
	token  string // that the server takes; empty takes any
	hits   []string
	server http.Handler
}

func newGitServer(t *testing.T, rule egress.GitRule, policy types.RunPolicySpec) *gitServer {
	t.Helper()
	backend := filepath.Join(strings.TrimSpace(output(t, "git", "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no http-backend here")
	}
	root := t.TempDir()
	g := &gitServer{repo: filepath.Join(root, "acme", "app.git"), control: &mintControl{}}
	output(t, "git", "init", "-q", "--bare", "-b", "main", g.repo)
	output(t, "git", "-C", g.repo, "config", "http.receivepack", "true")
	g.server = &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	upstreamCA.once.Do(func() { upstreamCA.ca = newCA(t, "upstream test CA") })
	leaf, err := upstreamCA.ca.leaf("github.com")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: g, ErrorLog: quietLog()}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	g.bench = newBench(t, setup{
		config: egress.Config{Policy: policy, GitGrants: map[string]uuid.UUID{"acme/app": gitGrant}},
		node:   egress.NodeConfig{Git: map[string]egress.GitRule{"acme/app": rule}},
		dns:    map[string][][]string{"github.com": {{"140.82.112.3"}}},
		tweak: func(o *Options) {
			o.Control = g.control
			o.Dial = func(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
				if ap.String() != "140.82.112.3:443" {
					t.Errorf("dialled %s", ap)
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
			}
		},
	})
	return g
}

func (g *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, token, ok := r.BasicAuth()
	g.mu.Lock()
	g.hits = append(g.hits, r.Method+" "+r.RequestURI)
	want := g.token
	g.mu.Unlock()
	if !ok || user != "x-access-token" || !strings.HasPrefix(token, "minted-token-") || want != "" && token != want || r.Header.Get("Cookie") != "" {
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	r.Header.Del("Authorization")
	g.server.ServeHTTP(w, r)
}

func (g *gitServer) url() string { return "http://" + g.addr + "/wardyn/gh/acme/app.git" }

// run runs git as a sandbox would and returns its output.
func (g *gitServer) run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.test",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.test", "http_proxy=", "https_proxy=", "HTTP_PROXY=", "HTTPS_PROXY=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// seeded clones the empty repository and commits a file of some size.
func (g *gitServer) seeded(t *testing.T) string {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	if out, err := g.run(t, ".", "clone", "-q", g.url(), work); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	big := bytes.Repeat([]byte("some text that does not compress to nothing 0123456789\n"), 1000)
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(work, "f"+string(rune('a'+i))), append(big, byte(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.run(t, work, "checkout", "-q", "-b", "main")
	g.run(t, work, "add", ".")
	if out, err := g.run(t, work, "commit", "-q", "-m", "x"); err != nil {
		t.Fatalf("commit: %v\n%s", err, out)
	}
	return work
}

func TestGitCloneAndPushByGrant(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{})
	work := g.seeded(t)
	prefix := "wardyn/" + testRun.String() + "/"
	if out, err := g.run(t, work, "push", "-q", "origin", "main:"+prefix+"topic"); err != nil {
		t.Fatalf("push below the session's prefix: %v\n%s", err, out)
	}
	for refspec, reason := range map[string]string{
		"main:main": "a push to refs/heads/main is not allowed", "main:refs/tags/v1": "a push to refs/tags/v1 is not allowed",
		"main:wardyn/other/x": "a push to refs/heads/wardyn/other/x is not allowed", ":" + prefix + "topic": "deleting refs/heads/" + prefix + "topic is not allowed",
	} {
		out, err := g.run(t, work, "push", "origin", refspec)
		if err == nil {
			t.Errorf("push %s succeeded", refspec)
		}
		for _, want := range []string{"remote: wardyn: " + reason, "[remote rejected]", "(" + reason, "push_refs"} { // I4
			if !strings.Contains(out, want) {
				t.Errorf("push %s: %q is not in %s", refspec, want, out)
			}
		}
	}
	refs := output(t, "git", "-C", g.repo, "for-each-ref", "--format=%(refname)")
	if strings.TrimSpace(refs) != "refs/heads/"+prefix+"topic" {
		t.Errorf("refs at the server: %q", refs)
	}
	again := filepath.Join(t.TempDir(), "again")
	if out, err := g.run(t, ".", "clone", "-q", "-b", prefix+"topic", g.url(), again); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	if out, err := g.run(t, again, "fsck", "--full"); err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
	if g.control.mints != 1 { // B51
		t.Errorf("the grant was minted %d times", g.control.mints)
	}
	config, _ := os.ReadFile(filepath.Join(again, ".git", "config"))
	if bytes.Contains(config, []byte("minted-token")) {
		t.Error("the token is inside the sandbox")
	}
	d := g.records.verdicts()[0]
	if d.Request.Host != "github.com" || d.Request.Path != "/acme/app.git/info/refs" || d.Flow.InjectedBy != "git:acme/app" || d.Flow.Rule != "git grant acme/app" {
		t.Errorf("record %+v %+v", d, d.Flow)
	}
}

func TestE127FetchOnly(t *testing.T) {
	g := newGitServer(t, egress.GitRule{FetchOnly: true}, types.RunPolicySpec{})
	work := g.seeded(t)
	if out, err := g.run(t, work, "push", "origin", "main:wardyn/"+testRun.String()+"/x"); err == nil || !strings.Contains(out, "remote: wardyn: the grant for acme/app is for fetching only") {
		t.Errorf("push: %v %s", err, out)
	}
	g.refused(t, policy.Denied, "github.com", "for fetching only")
	for _, hit := range g.hits {
		if strings.Contains(hit, "receive-pack") {
			t.Errorf("the server saw %s", hit)
		}
	}
}

func TestGitOperatorLiftsPushLimits(t *testing.T) {
	g := newGitServer(t, egress.GitRule{PushRefs: []string{"*"}}, types.RunPolicySpec{})
	work := g.seeded(t)
	for _, refspec := range []string{"main:main", "main:other", ":other"} {
		if out, err := g.run(t, work, "push", "-q", "origin", refspec); err != nil {
			t.Errorf("push %s: %v\n%s", refspec, err, out)
		}
	}
}

func TestGitDenyListWins(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{DeniedDomains: []string{"github.com"}})
	r, body := g.exchange(t, "GET /wardyn/gh/acme/app/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n")
	if r.StatusCode != 403 || !strings.Contains(body, "policy:denied") || len(g.hits) != 0 || g.control.mints != 0 {
		t.Errorf("%s %q, hits %v", r.Status, body, g.hits)
	}
}

func TestE103RotatedTokenIsMintedOnceMore(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{})
	get := "GET /wardyn/gh/acme/app/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Basic bWluZTptaW5l\r\nCookie: a=b\r\nConnection: close\r\n\r\n"
	if r, _ := g.exchange(t, get); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	g.mu.Lock()
	g.token = "minted-token-xx" // the first one is void now
	g.mu.Unlock()
	if r, _ := g.exchange(t, get); r.StatusCode != 200 || g.control.mints != 2 {
		t.Errorf("%s, minted %d times", r.Status, g.control.mints)
	}
	g.control.mu.Lock()
	g.control.fail = true
	g.control.mu.Unlock()
	g.mu.Lock()
	g.token = "never"
	g.mu.Unlock()
	if r, _ := g.exchange(t, get); r.StatusCode != 401 {
		t.Errorf("a token that nobody takes: %s", r.Status)
	}
	if r, body := g.exchange(t, get); r.StatusCode != 502 || strings.Contains(body, "minted-token") {
		t.Errorf("a grant that cannot be minted: %s %q", r.Status, body)
	}
}

// refused looks for the record of a refusal.
func (g *gitServer) refused(t *testing.T, source, host, cause string) {
	t.Helper()
	for _, d := range g.records.verdicts() {
		if d.Decision == egress.Deny && d.RuleSource == source && d.Request.Host == host && strings.Contains(d.Cause, cause) && d.Flow.Hint != "" {
			return
		}
	}
	t.Errorf("no record of a refusal with %s, %s, %q", source, host, cause)
}

// TestI4EveryRefusalOfTheBroker: each is in the log, and git shows its user why.
func TestI4EveryRefusalOfTheBroker(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{})
	other := strings.Replace(g.url(), "app.git", "other", 1)
	out, err := g.run(t, t.TempDir(), "clone", other)
	if err == nil || !strings.Contains(out, "remote: wardyn: no git block names acme/other") || !strings.Contains(out, `repo = "acme/other"`) {
		t.Errorf("clone of another repository: %v %s", err, out)
	}
	g.refused(t, policy.Denied, "127.0.0.1", "acme/other")
	g.exchange(t, "GET /wardyn/gh/acme/app/info/refs?service=git-upload-archive HTTP/1.1\r\nHost: wardyn-proxy:3128\r\n\r\n")
	g.refused(t, policy.BadRequest, "wardyn-proxy", "the only services")
	g.exchange(t, "POST /wardyn/gh/acme/app.git/info/lfs/objects/batch HTTP/1.1\r\nHost: wardyn-proxy:3128\r\nContent-Length: 2\r\n\r\n{}")
	g.refused(t, policy.Denied, "wardyn-proxy", "LFS")
	if len(g.hits) != 0 {
		t.Errorf("the server saw %v", g.hits)
	}
}

// TestRefusedPushIsGoneOnAfter: a refused push whose pack takes several writes is
// read to its end, and the connection serves the next request.
func TestRefusedPushIsGoneOnAfter(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{})
	c := g.dial(t)
	zero, one := strings.Repeat("0", 40), strings.Repeat("1", 40)
	line := zero + " " + one + " refs/heads/main\x00 report-status"
	body := fmt.Sprintf("%04x%s0000PACK%s", len(line)+4, line, strings.Repeat("x", 300<<10))
	c.send(t, fmt.Sprintf("POST /wardyn/gh/acme/app/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	r := c.answer(t, "POST")
	got, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || !strings.HasPrefix(string(got), "000eunpack ok\n") || !strings.Contains(string(got), "ng refs/heads/main a push to refs/heads/main is not allowed\n0000") {
		t.Errorf("%s %q, %v", r.Status, got, err)
	}
	c.send(t, "GET /wardyn/v1/denials HTTP/1.1\r\nHost: x\r\n\r\n")
	if r := c.answer(t, "GET"); r.StatusCode != 200 {
		t.Errorf("the next request: %s", r.Status)
	}
	// A client that asks for no report gets the status.
	plain := strings.Replace(body, "report-status", "side-band-64k", 1)
	if r, text := g.exchange(t, fmt.Sprintf("POST /wardyn/gh/acme/app/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(plain), plain)); r.StatusCode != 403 || !strings.Contains(text, "refs/heads/main") {
		t.Errorf("without a report: %s %q", r.Status, text)
	}
	if len(g.hits) != 0 {
		t.Errorf("the server saw %v", g.hits)
	}
}

func TestE132LFSIsRefusedWithAReason(t *testing.T) {
	g := newGitServer(t, egress.GitRule{}, types.RunPolicySpec{})
	r, body := g.exchange(t, "POST /wardyn/gh/acme/app.git/info/lfs/objects/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	if r.StatusCode != 403 || !strings.Contains(body, "GIT_LFS_SKIP_SMUDGE") || len(g.hits) != 0 {
		t.Errorf("%s %q", r.Status, body)
	}
	if r, body := g.exchange(t, "POST /wardyn/gh/acme/app.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n0000"); r.StatusCode != 415 {
		t.Errorf("a compressed push: %s %q", r.Status, body)
	}
}

// TestPushThatGoesNowhere: the commands of a push were read ahead when it turned
// out that it goes nowhere; what comes behind them is no request.
func TestPushThatGoesNowhere(t *testing.T) {
	const id = "0123456789012345678901234567890123456789"
	line := id + " " + id + " refs/heads/main\x00report-status"
	push := fmt.Sprintf("%04x%s0000PACK and what goes with it", len(line)+4, line)
	for name, fails := range map[string]func(*gitServer){
		"no token":   func(g *gitServer) { g.control.fail = true },
		"no address": func(g *gitServer) { g.srv.resolver = &failingResolver{err: &net.DNSError{IsNotFound: true}} },
	} {
		g := newGitServer(t, egress.GitRule{PushRefs: []string{"refs/heads/"}}, allow())
		fails(g)
		c := g.dial(t)
		c.send(t, fmt.Sprintf("POST /wardyn/gh/acme/app.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(push), push))
		resp := c.answer(t, "POST")
		if io.Copy(io.Discard, resp.Body); resp.StatusCode != 502 || !resp.Close {
			t.Errorf("%s: %s, the connection goes on: %v", name, resp.Status, !resp.Close)
		}
		if more := c.ended(t); more != "" {
			t.Errorf("%s: %q", name, more)
		}
	}
}
