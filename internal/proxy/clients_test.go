package proxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// realClients are programs as people use them, each given a URL: the command,
// and what a refusal of a tunnel looks like to its user.
var realClients = map[string]struct {
	argv    func(url, ca string) []string
	refused string
}{
	"curl": {func(url, ca string) []string { return []string{"curl", "-sS", "--cacert", ca, url} }, "response 403"},
	"wget": {func(url, ca string) []string {
		return []string{"wget", "-nv", "-S", "-O", "-", "-t", "1", "--ca-certificate=" + ca, url}
	}, "egress denied: evil.test:443 policy:default-deny"},
	"python3": {func(url, _ string) []string {
		return []string{"python3", "-c", "import sys,urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())", url}
	}, "egress denied: evil.test:443 policy:default-deny"},
}

// TestClientsOnThisMachine: programs that people use, through tunnels that are
// opened and through such that are not.
func TestClientsOnThisMachine(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "origin says %s %s", r.Method, r.RequestURI)
	}), "h2", "http/1.1")
	opaqueCA := filepath.Join(t.TempDir(), "upstream.pem")
	if err := os.WriteFile(opaqueCA, []byte(upstreamCA.ca.pem.cert), 0o644); err != nil {
		t.Fatal(err)
	}
	intercepted := intercepting(t, origin, allow("api.test"), true)
	opaque := intercepting(t, origin, allow("api.test"), false)
	opaque.srv.tls.hosts = nil // the same origin through plain tunnels
	runCA := filepath.Join(t.TempDir(), "run.pem")
	if err := os.WriteFile(runCA, []byte(intercepted.runCA.pem.cert), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range realClients {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed", name)
			}
			for kind, via := range map[string]struct {
				b  *bench
				ca string
			}{"intercepted": {intercepted, runCA}, "opaque": {opaque, opaqueCA}} {
				if out, err := via.b.program(t, via.ca, c.argv("https://api.test/a%2Fb", via.ca)); err != nil || !strings.Contains(out, "origin says GET /a%2Fb") {
					t.Errorf("%s: %v\n%s", kind, err, out)
				}
				if out, err := via.b.program(t, via.ca, c.argv("https://evil.test/", via.ca)); err == nil || !strings.Contains(out, c.refused) {
					t.Errorf("%s, refused: %v\n%s", kind, err, out)
				}
			}
		})
	}
}

// program runs a client with nothing but the usual variables set.
func (b *bench) program(t *testing.T, ca string, argv []string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	proxy := "http://" + b.addr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SSL_CERT_FILE=" + ca,
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRealClientsOverPlainHTTP(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: types.RunPolicySpec{AllowedDomains: []string{"allowed.test"}}},
		dns: map[string][][]string{"allowed.test": {{"93.184.216.34"}}}})
	for name, c := range realClients {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed", name)
			}
			if out, err := b.program(t, "", c.argv("http://allowed.test/x", "")); err != nil || !strings.Contains(out, "ok") {
				t.Errorf("%v\n%s", err, out)
			}
			out, err := b.program(t, "", c.argv("http://evil.test/x", ""))
			if name == "curl" && !strings.Contains(out, "the author can add") || name != "curl" && (err == nil || !strings.Contains(out, "403")) {
				t.Errorf("refused: %v\n%s", err, out)
			}
		})
	}
}
