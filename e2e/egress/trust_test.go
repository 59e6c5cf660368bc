package egress

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scripts of clients that each know certificates in a way of their own. $HOST is
// whom they ask and $CA the certificate of who signed for it.
const (
	httpxScript = `python3 -c 'import httpx, os; r = httpx.get("https://" + os.environ["HOST"] + "/v1"); print(r.status_code, r.text)'`
	rubyScript  = `ruby --disable=gems -ropen-uri -e 'puts URI.open("https://" + ENV["HOST"] + "/v1").read'`
	cargoScript = `rm -rf /tmp/cargo; mkdir -p /tmp/cargo/src /tmp/cargo/.cargo; cd /tmp/cargo; export CARGO_HOME=/tmp/cargo/home CARGO_NET_RETRY=0
printf '[package]\nname = "app"\nversion = "1.0.0"\n[dependencies]\ndemo = { version = "1", registry = "here" }\n' >Cargo.toml
printf '[registries.here]\nindex = "sparse+https://%s/cargo/"\n' "$HOST" >.cargo/config.toml
: >src/lib.rs; cargo vendor -q && cat vendor/demo/src/lib.rs`
	aptScript = `rm -rf /tmp/apt; mkdir -p /tmp/apt/lists/partial /tmp/apt/cache/archives/partial; cd /tmp/apt; : >status
echo "deb [trusted=yes] https://$HOST/apt stable main" >sources
o="-qq -o Dir::Etc::SourceList=/tmp/apt/sources -o Dir::Etc::SourceParts=- -o Dir::State=/tmp/apt -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache
-o APT::Sandbox::User=root -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Acquire::Retries=0 -o Acquire::https::CAInfo=$CA"
apt-get $o update && apt-get $o download demo && cat demo_1.0_all.deb`
	javaScript = `rm -f /tmp/trust; /opt/java/bin/keytool -importcert -noprompt -alias ca -file $CA -keystore /tmp/trust -storepass changeit
/opt/java/bin/java -XX:TieredStopAtLevel=1 -Djavax.net.ssl.trustStore=/tmp/trust -Djavax.net.ssl.trustStorePassword=changeit -cp /opt/java/demo Fetch https://$HOST/v1`
)

// trustClients are those clients, what they print when a host answers, and what
// when it is refused. {} stands for the host.
var trustClients = []struct {
	name, needs, script string
	want, refused       []string
}{
	{"python httpx", "python httpx", httpxScript, []string{"200 hello from {}/v1"}, []string{"egress denied: {}:443 policy:default-deny"}},
	{"ruby", "ruby", rubyScript, []string{"hello from {}/v1"}, []string{"egress denied: {}:443 policy:default-deny"}},
	{"cargo", "cargo", cargoScript, []string{"demo from cargo"}, []string{"CONNECT tunnel failed, response 403"}},
	{"apt", "apt", aptScript, []string{"demo from apt"}, []string{"egress denied: {}:443 policy:default-deny"}},
	{"java", "java", javaScript, []string{"DIRECT: 200 hello from {}/v1", "HTTP: 200 hello from {}/v1"},
		[]string{"DIRECT: javax.net.ssl.SSLHandshakeException", `HTTP/1.1 403 egress denied: {}:443 policy:default-deny`}},
}

const (
	opened   = "api.example.internal"   // its TLS is ended by the sidecar
	tunnel   = "other.example.internal" // its TLS is passed on
	unlisted = "blocked.example"
)

// upstreamCA is where tests put the certificate of the upstream's own CA.
const upstreamCA = "/local/upstream-ca.pem"

// trust runs those clients in a task that has opened among its opened hosts and
// tunnel not: each with the documented setting alone, with a CA of its own for a
// host behind an opaque tunnel, and against a host that no list speaks of.
func (w *work) trust(t *testing.T, tools toolchains) {
	ca, err := os.ReadFile(w.rig.caFile)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Dir().Local, filepath.Base(upstreamCA)), ca, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	const own = "export CA=" + upstreamCA + " SSL_CERT_FILE=" + upstreamCA + " CARGO_HTTP_CAINFO=" + upstreamCA + "; "
	for _, c := range trustClients {
		t.Run(c.name, func(t *testing.T) {
			tools.need(t, c.needs)
			for host, want := range map[string][]string{opened: c.want, tunnel: c.want, unlisted: c.refused} {
				set := "export CA=/tmp/wardyn/mitm-ca.pem; "
				if host == tunnel {
					set = own
				}
				got := w.sh(t, set+"export HOST="+host+"\n("+c.script+") 2>&1")
				for _, text := range want {
					if !strings.Contains(got, strings.ReplaceAll(text, "{}", host)) {
						t.Errorf("%s: %q is not in\n%s", host, text, got)
					}
				}
			}
		})
	}
	w.wereCarried(t)
}

// wereCarried looks in the records for how the two hosts were.
func (w *work) wereCarried(t *testing.T) {
	t.Helper()
	var records []struct {
		Host, Kind, Decision, Scheme, Path, Visibility string
		MITM                                           bool
	}
	got := w.exec(t, "wardyn", "decisions", "-json", "-n", "500")
	if err := json.Unmarshal([]byte(got), &records); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	seen := map[string]int{}
	for _, r := range records {
		switch {
		case r.Kind != "decision" || r.Decision != "allow":
		case r.Host == tunnel && (r.MITM || r.Path != "" || r.Visibility != "sni"):
			t.Errorf("not an opaque tunnel: %+v", r)
		case r.Host == opened && r.Scheme == "https" && r.Path != "" && !r.MITM:
			t.Errorf("not opened: %+v", r)
		default:
			seen[r.Host]++
		}
	}
	if seen[opened] == 0 || seen[tunnel] == 0 {
		t.Errorf("records: %v", seen)
	}
}
