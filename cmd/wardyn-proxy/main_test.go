package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// TestMain lets the test binary be the program itself.
func TestMain(m *testing.M) {
	if os.Getenv("WARDYN_PROXY_TEST_MAIN") == "1" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program is the proxy as a process.
func program(t *testing.T, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append([]string{"WARDYN_PROXY_TEST_MAIN=1", "PATH=/nowhere"}, env...)
	var out bytes.Buffer
	cmd.Stderr, cmd.Stdout = &out, &out
	return cmd, &out
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

const runID = "11111111-1111-4111-8111-111111111111"

// proxyConfig is a configuration with some keys replaced.
func proxyConfig(replace map[string]any) []byte {
	c := map[string]any{
		"run_id": runID, "control_plane_url": "http://127.0.0.1:1", "run_token": "run-token-0123456789",
		"policy": map[string]any{"allowed_domains": []string{"allowed.test", "api.test", "44.44.44.1"}, "first_use_approval": "always_deny", "min_confinement_class": "CC1"},
		"listen": "127.0.0.1:0",
	}
	for k, v := range replace {
		c[k] = v
	}
	b, _ := json.Marshal(c)
	return b
}

// TestP64BadStartsEndInOne: each fault ends the process with 1 and a reason,
// and no secret is in it.
func TestP64BadStartsEndInOne(t *testing.T) {
	rule := []any{map[string]any{"host": "api.test", "header": "X-Key", "secret_name": "k", "format": "%s", "grant_id": runID}}
	starts := map[string]struct {
		config []byte
		reason string
	}{
		"no configuration":        {nil, "no configuration"},
		"not JSON":                {[]byte("{"), "configuration"},
		"unknown key":             {proxyConfig(map[string]any{"allowed": 1}), "unknown field"},
		"nil run id":              {proxyConfig(map[string]any{"run_id": "00000000-0000-0000-0000-000000000000"}), "nil UUID"},
		"no control plane":        {proxyConfig(map[string]any{"control_plane_url": ""}), "control_plane_url"},
		"bad control plane":       {proxyConfig(map[string]any{"control_plane_url": "ftp://x"}), "scheme"},
		"no token":                {proxyConfig(map[string]any{"run_token": ""}), "run_token"},
		"bad upstream":            {proxyConfig(map[string]any{"upstream_proxy_url": "https://user:hunter2-hunter2@p.test"}), "upstream_proxy_url"},
		"refused policy":          {proxyConfig(map[string]any{"policy": map[string]any{"denied_domains": []string{"a..b"}}}), "a..b"},
		"bad CA pair":             {proxyConfig(map[string]any{"mitm_hosts": []string{"api.test"}, "mitm_ca_cert_pem": "x", "mitm_ca_key_pem": "y"}), "CA"},
		"interception without CA": {proxyConfig(map[string]any{"mitm_hosts": []string{"api.test"}}), "CA"},
		"injection without CA":    {proxyConfig(map[string]any{"injection": rule}), "CA"},
		"bad listen":              {proxyConfig(map[string]any{"listen": "nonsense"}), "listen"},
	}
	for name, tt := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if tt.config != nil {
				env = []string{"WARDYN_PROXY_CONFIG_JSON=" + string(tt.config)}
			}
			cmd, out := program(t, env)
			if code := exitCode(t, cmd); code != 1 || !strings.Contains(out.String(), tt.reason) {
				t.Errorf("exit %d, output %s, want 1 and %q", code, out, tt.reason)
			}
			if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), "run-token-0123456789") {
				t.Errorf("a secret is in the output: %s", out)
			}
		})
	}
}

func TestP65BadFlagsEndInTwo(t *testing.T) {
	for name, env := range map[string][]string{"switch": {"WARDYN_LLM_SCAN=perhaps"}} {
		cmd, out := program(t, env)
		if code := exitCode(t, cmd); code != 2 {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
	for _, args := range [][]string{{"-nonsense"}, {"extra"}} {
		cmd, out := program(t, nil, args...)
		if code := exitCode(t, cmd); code != 2 {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	for _, v := range []string{"", "on", "OFF", "Disabled", "0"} {
		if err := checkScanSwitch(v); err != nil {
			t.Errorf("%q: %v", v, err)
		}
	}
}

// TestK25LibrariesLogNothing: net/http prints what an origin sends unasked, as
// with an answer to HEAD that has a body; that may be the credential it was sent.
func TestK25LibrariesLogNothing(t *testing.T) {
	var out bytes.Buffer
	before := stdlog.Writer()
	stdlog.SetOutput(&out)
	defer stdlog.SetOutput(before)
	if code := run([]string{"extra"}); code != 2 {
		t.Errorf("exit %d", code)
	}
	left := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer close(left)
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		time.Sleep(50 * time.Millisecond) // until the connection waits for the next request
		io.WriteString(c, "my-secret")
		io.Copy(io.Discard, c)
	}))
	defer srv.Close()
	tr := &http.Transport{}
	resp, err := (&http.Client{Transport: tr}).Head(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-left // the client did not like it
	if out.Len() != 0 {
		t.Errorf("printed %s", out.String())
	}
}

func TestT36FileGoesBeforeVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proxy.json")
	if err := os.WriteFile(file, proxyConfig(map[string]any{"run_id": "file"}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := program(t, []string{"WARDYN_PROXY_CONFIG_JSON=" + string(proxyConfig(map[string]any{"run_id": "variable"}))}, "-config", file)
	if code := exitCode(t, cmd); code != 1 || !strings.Contains(out.String(), `"file"`) && !strings.Contains(out.String(), `\"file\"`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

// plugin is the control plane of one run on a unix socket.
type plugin struct {
	t    *testing.T
	sock string
	node egress.NodeConfig

	mu        sync.Mutex
	srv       *http.Server
	ready     int
	decisions []egress.DecisionLog
	gained    []string // addresses of the node since the configuration was fetched
}

func (p *plugin) start() {
	p.t.Helper()
	os.Remove(p.sock)
	l, err := net.Listen("unix", p.sock)
	if err != nil {
		p.t.Fatal(err)
	}
	srv := &http.Server{Handler: p}
	p.mu.Lock()
	p.srv = srv
	p.mu.Unlock()
	go srv.Serve(l)
}

func (p *plugin) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.srv.Close()
}

func (p *plugin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == egress.PathConfig {
		json.NewEncoder(w).Encode(egress.SidecarConfig{Proxy: proxyConfig(map[string]any{"listen": ":3128"}), Node: p.node})
		return
	}
	if r.Header.Get("Authorization") != "Bearer run-token-0123456789" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case egress.PathOwn:
		json.NewEncoder(w).Encode(egress.OwnAddresses{Own: p.gained})
	case egress.PathReady:
		p.ready++
		w.WriteHeader(http.StatusNoContent)
	case egress.PathDecisions:
		var d egress.DecisionLog
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.decisions = append(p.decisions, d)
	case egress.PathRenew:
		fmt.Fprintf(w, `{"token":"run-token-0123456789","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	default:
		http.NotFound(w, r)
	}
}

func (p *plugin) state() (ready, decisions int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready, len(p.decisions)
}

// eventually waits for what another process brings about.
var eventually = testenv.Eventually

// TestK9ControlSocket goes through a sidecar's life: not ready, configured,
// ready, serving on its own leg alone, a plugin that goes away and comes back,
// and the end.
func TestK9ControlSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("binding ports 53, 80 and 443 needs root")
	}
	const leg = "127.77.0.2"
	p := &plugin{t: t, sock: filepath.Join(t.TempDir(), "control.sock"), node: egress.NodeConfig{Listen: leg}}
	cmd, out := program(t, nil, "-control", "unix://"+p.sock)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	get := func(target string) (*http.Response, error) { return through(leg+":3128", target) }

	eventually(t, "503 before the configuration", func() bool {
		r, err := get("http://allowed.test/")
		return err == nil && r.StatusCode == http.StatusServiceUnavailable
	})
	p.start()
	eventually(t, "ready", func() bool { n, _ := p.state(); return n == 1 })
	if c, err := net.Dial("tcp", "127.0.0.1:3128"); err == nil {
		c.Close()
		t.Error("K16: the proxy listens on another leg as well")
	}
	p.mu.Lock()
	p.gained = []string{"44.44.44.1"}
	p.mu.Unlock()
	eventually(t, "an address that the node gained is refused", func() bool {
		r, err := get("http://44.44.44.1/")
		return err == nil && r.StatusCode == http.StatusForbidden
	})
	_, sofar := p.state()
	for i := range 3 {
		if r, err := get(fmt.Sprintf("http://h%d.test/", i)); err != nil || r.StatusCode != 403 {
			t.Fatalf("%v %v", r, err)
		}
	}
	eventually(t, "decisions", func() bool { _, n := p.state(); return n >= sofar+3 })
	checkLegServices(t, leg)

	p.stop()
	for i := range 20 {
		if r, err := get(fmt.Sprintf("http://away%d.test/", i)); err != nil || r.StatusCode != 403 {
			t.Fatalf("while the plugin is away: %v %v", r, err)
		}
	}
	_, before := p.state()
	p.start()
	eventually(t, "nothing is lost over a plugin restart", func() bool { _, n := p.state(); return n >= before+20 })
	p.mu.Lock()
	last := uint64(0)
	for _, d := range p.decisions {
		if d.Flow.Seq == last {
			continue // the plugin went away before its answer, so it came again
		}
		if d.Flow.Seq != last+1 {
			t.Errorf("record %d follows record %d", d.Flow.Seq, last)
		}
		last = d.Flow.Seq
	}
	p.mu.Unlock()

	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, out)
	}
	if n := strings.Count(out.String(), `"rule_source":"policy:default-deny"`); n < 23 {
		t.Errorf("%d decision lines on the output", n)
	}
	if strings.Contains(out.String(), "run-token-0123456789") {
		t.Error("the run token is in the output")
	}
}

// checkLegServices asks the name server and the transparent ports.
func checkLegServices(t *testing.T, leg string) {
	t.Helper()
	res := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, leg+":53")
	}}
	if got, err := res.LookupHost(t.Context(), "anything.test."); err != nil || len(got) != 1 || got[0] != leg {
		t.Errorf("name server: %v %v", got, err)
	}
	c, err := net.Dial("tcp", leg+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 403 {
		t.Errorf("transparent port 80: %v %v", r, err)
	}
	tc, err := net.Dial("tcp", leg+":443")
	if err != nil {
		t.Errorf("transparent port 443: %v", err)
	} else {
		tc.Close()
	}
}

func through(proxy, target string) (*http.Response, error) {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), DisableKeepAlives: true}
	r, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Get(target)
	if err == nil {
		r.Body.Close()
	}
	return r, err
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
