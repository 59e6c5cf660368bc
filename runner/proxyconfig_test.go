package runner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var (
	testRun   = uuid.MustParse("11111111-2222-4333-8444-AAAABBBBCCCC")
	testGrant = uuid.MustParse("99999999-2222-4333-8444-555566667777")
)

func fullProxyConfig() runner.ProxyConfig {
	return runner.ProxyConfig{
		RunToken:        "token-1",
		ControlPlaneURL: egress.LocalControlURL,
		Policy: types.RunPolicySpec{
			AllowedDomains:   []string{"api.example", "*.pkg.example:443"},
			DeniedDomains:    []string{"evil.example"},
			FirstUseApproval: types.WaitForReview,
			EligibleGrants:   []types.GrantSpec{{Kind: "api_key", Scope: json.RawMessage(`{"a": 1}`), TTLSeconds: 60}},
		},
		Injection: []runner.InjectionGrant{{
			GrantID: testGrant,
			Rule:    egress.InjectionRule{Host: "api.example", Header: "x-api-key", SecretName: "model", Format: "{secret}"},
		}},
		MITMCACertPEM:    "CERT",
		MITMCAKeyPEM:     "KEY",
		MITMHosts:        []string{"api.example"},
		MITMLLM:          true,
		GitGrants:        map[string]uuid.UUID{"b/b": testGrant, "a/a": testGrant, "c/c": testGrant},
		UpstreamProxyURL: "http://proxy.example:8080",
	}
}

func build(t *testing.T, pc runner.ProxyConfig) []byte {
	t.Helper()
	b, err := runner.BuildProxyConfig(testRun, pc, runner.ProxyListenPort)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keysOf(t *testing.T, b []byte) []string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(m))
}

func TestT33KeysOfTheProxyConfig(t *testing.T) {
	if got, want := keysOf(t, build(t, runner.ProxyConfig{})),
		[]string{"control_plane_url", "listen", "policy", "run_id", "run_token"}; !slices.Equal(got, want) {
		t.Errorf("of an empty configuration: %v, want %v", got, want)
	}
	want := []string{"control_plane_url", "git_grants", "injection", "listen", "mitm_ca_cert_pem", "mitm_ca_key_pem",
		"mitm_hosts", "mitm_llm", "policy", "run_id", "run_token", "upstream_proxy_url"}
	if got := keysOf(t, build(t, fullProxyConfig())); !slices.Equal(got, want) {
		t.Errorf("of a full configuration: %v, want %v", got, want)
	}
}

func TestT33SidecarReadsWhatIsWritten(t *testing.T) {
	pc := fullProxyConfig()
	got, err := egress.ParseConfig(build(t, pc))
	if err != nil {
		t.Fatal(err)
	}
	pc.Policy.EligibleGrants[0].Scope = json.RawMessage(`{"a":1}`) // JSON compacts what it carries
	want := egress.Config{
		RunID:           "11111111-2222-4333-8444-aaaabbbbcccc",
		ControlPlaneURL: pc.ControlPlaneURL,
		RunToken:        pc.RunToken,
		Policy:          pc.Policy,
		Injection: []egress.InjectionGrant{{
			InjectionRule: pc.Injection[0].Rule,
			GrantID:       testGrant,
		}},
		Listen:           ":3128",
		MITMCACertPEM:    "CERT",
		MITMCAKeyPEM:     "KEY",
		MITMHosts:        pc.MITMHosts,
		MITMLLM:          true,
		GitGrants:        pc.GitGrants,
		UpstreamProxyURL: pc.UpstreamProxyURL,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, want)
	}
}

func TestT30GrantsTravelFlat(t *testing.T) {
	var c struct {
		Injection []map[string]string `json:"injection"`
	}
	if err := json.Unmarshal(build(t, fullProxyConfig()), &c); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"host": "api.example", "header": "x-api-key", "secret_name": "model",
		"format": "{secret}", "grant_id": testGrant.String()}
	if len(c.Injection) != 1 || !maps.Equal(c.Injection[0], want) {
		t.Errorf("injection = %v, want one of %v", c.Injection, want)
	}
}

func TestT34EqualInputEqualBytes(t *testing.T) {
	first := build(t, fullProxyConfig())
	for range 20 { // maps are walked in another order each time
		if again := build(t, fullProxyConfig()); !bytes.Equal(first, again) {
			t.Fatalf("two builds differ:\n%s\n%s", first, again)
		}
	}
}

func TestT15InputIsNotTouched(t *testing.T) {
	pc := fullProxyConfig()
	b := build(t, pc)
	if !reflect.DeepEqual(pc, fullProxyConfig()) {
		t.Fatal("BuildProxyConfig changed its input")
	}
	before := bytes.Clone(b)
	pc.Policy.AllowedDomains[0] = "other.example"
	pc.GitGrants["d/d"] = testGrant
	if !bytes.Equal(b, before) {
		t.Fatal("the built configuration shares memory with its input")
	}
}

func TestT33PortIsTheCallers(t *testing.T) {
	b, err := runner.BuildProxyConfig(testRun, runner.ProxyConfig{}, 9)
	if err != nil || !strings.Contains(string(b), `"listen":":9"`) {
		t.Errorf("got %s, %v; want listen :9", b, err)
	}
}

// T36, T64: what lacks a token or a run is built, and refused by the reader.
func TestT36ReaderRefusesAnEmptyConfig(t *testing.T) {
	b, err := runner.BuildProxyConfig(uuid.Nil, runner.ProxyConfig{}, runner.ProxyListenPort)
	if err != nil {
		t.Fatal(err)
	}
	_, err = egress.ParseConfig(b)
	for _, want := range []string{"nil UUID", "control_plane_url", "run_token"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
}

func TestBrokenScopeIsInvalid(t *testing.T) {
	pc := runner.ProxyConfig{Policy: types.RunPolicySpec{
		EligibleGrants: []types.GrantSpec{{Kind: "api_key", Scope: json.RawMessage(`{broken`)}},
	}}
	if _, err := runner.BuildProxyConfig(testRun, pc, 1); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}
