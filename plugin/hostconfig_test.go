package plugin

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// operator decodes a plugin block's config as an agent does.
func operator(t *testing.T, block map[string]any) Config {
	t.Helper()
	b, err := hclconf.Msgpack(configSpec(), block, nil)
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := msgpack.Decode(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchemasHaveNoTraps(t *testing.T) {
	for name, spec := range map[string]*hclspec.Spec{"plugin": configSpec(), "task": taskSpec()} {
		if spec.GetObject() == nil {
			t.Errorf("trap 6: the top level of the %s schema is no object", name)
		}
		if err := hclspec.Lint(spec); err != nil {
			t.Errorf("trap 30: %s: %v", name, err)
		}
		if _, err := hclconf.Decoder(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsOfAll(t *testing.T) {
	got, err := hostConfig(operator(t, map[string]any{
		"data_dir":           "/srv/wardyn",
		"endpoint":           "unix:///run/docker.sock",
		"subnet_pool":        "10.99.0.0/20",
		"egress_subnet_pool": "10.98.0.0/22",
		// An agent's file has a block as a list of maps.
		"private_hosts":    []any{map[string]any{"Artifacts.corp.example.": []any{"10.1.0.0/16", "10.2.3.4"}}, map[string]any{"git.corp.example": "fd00:1::/64"}},
		"allow_domains":    []any{"*.com", "db.example.org:5432+tcp"},
		"deny_domains":     []any{"*.bad.com"},
		"allow_all_egress": "true",
		"confinement": []any{map[string]any{
			"minimum":  "CC1",
			"classes":  []any{"CC1", "CC2"},
			"runtimes": []any{map[string]any{"CC2": "runsc-kvm", "CC3": "kata-qemu"}},
		}},
		"cpu_cap": 4000, "max_memory": "8192", "max_pids": 1024, "slots": 100,
		"allow_caps":        []any{"chown", "CAP_SETUID"},
		"allow_secrets_dir": true, "expose_tokens": true,
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := HostConfig{
		DataDir: "/srv/wardyn", Endpoint: "unix:///run/docker.sock",
		SubnetPool: netip.MustParsePrefix("10.99.0.0/20"), EgressPool: netip.MustParsePrefix("10.98.0.0/22"),
		PrivateHosts: map[string]egress.PrivateHost{
			"artifacts.corp.example": {Prefixes: []string{"10.1.0.0/16"}, Addresses: []string{"10.2.3.4"}},
			"git.corp.example":       {Prefixes: []string{"fd00:1::/64"}},
		},
		AllowDomains: []string{"*.com", "db.example.org:5432+tcp"}, DenyDomains: []string{"*.bad.com"}, AllowAllEgress: true,
		MinClass: types.CC1, Classes: []types.ConfinementClass{types.CC1, types.CC2},
		Runtimes:     map[types.ConfinementClass]string{types.CC2: "runsc-kvm", types.CC3: "kata-qemu"},
		CPUCapMillis: 4000, MaxMemoryMiB: 8192, MaxPids: 1024, Slots: 100,
		AllowCaps: []string{"CHOWN", "SETUID"}, AllowSecretsDir: true, ExposeTokens: true,
		EgressHost: EgressHost{Approvals: ApprovalsNode},
		Setups:     setupRules(nil, nil),
		Images:     ImageRules{KeepUnused: defaultImageDelay},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNoOptionsOpensNothing(t *testing.T) {
	for name, block := range map[string]map[string]any{"absent": {}, "null": {"allow_caps": nil, "confinement": nil, "private_hosts": nil}} {
		h, err := hostConfig(operator(t, block))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.AllowAllEgress || h.AllowSecretsDir || h.ExposeTokens || len(h.AllowCaps) > 0 || len(h.PrivateHosts) > 0 {
			t.Errorf("%s: something is open: %+v", name, h)
		}
	}
	if _, err := hostConfig(Config{}); err != nil {
		t.Errorf("no config at all: %v", err)
	}
}

func TestI7EveryFaultOfTheOptions(t *testing.T) {
	for _, c := range []struct {
		block map[string]any
		words string
	}{
		{map[string]any{"data_dir": "relative"}, "data_dir"},
		{map[string]any{"data_dir": "/a/../b"}, "data_dir"},
		{map[string]any{"endpoint": "tcp://10.0.0.1:2375"}, "on this node"},
		{map[string]any{"endpoint": "unix://relative"}, "on this node"},
		{map[string]any{"subnet_pool": "10.0.0.1/16"}, "CIDR"},
		{map[string]any{"subnet_pool": "10.0.0.0/30"}, "/29"},
		{map[string]any{"egress_subnet_pool": "10.0.0.0/23"}, "/22"},
		{map[string]any{"subnet_pool": "fd00::/64"}, "CIDR"},
		{map[string]any{"subnet_pool": "10.214.0.0/24"}, "overlaps"},
		{map[string]any{"egress_subnet_pool": "10.213.8.0/22"}, "overlaps"},
		{map[string]any{"private_hosts": "x"}, "block or a map"},
		{map[string]any{"private_hosts": map[string]any{"*.corp": []any{"10.0.0.0/8"}}}, "exact name"},
		{map[string]any{"private_hosts": map[string]any{"10.0.0.1": []any{"10.0.0.0/8"}}}, "exact name"},
		{map[string]any{"private_hosts": map[string]any{"a.localhost": []any{"10.0.0.0/8"}}}, "exact name"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{}}}, "ranges or addresses"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"ten"}}}, "CIDR"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"0.0.0.0/0"}}}, "never opened"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"127.0.0.1"}}}, "loopback"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"::ffff:127.0.0.1"}}}, "loopback"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"169.254.169.254"}}}, "metadata"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"100.100.0.0/16"}}}, "metadata"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"fd00:ec2::/32"}}}, "metadata"},
		{map[string]any{"private_hosts": map[string]any{"h": []any{"fe80::1"}}}, "link-local"},
		{map[string]any{"allow_domains": []any{"https://a.example"}}, "allow_domains"},
		{map[string]any{"deny_domains": []any{"a.example:0"}}, "deny_domains"},
		{map[string]any{"confinement": map[string]any{"minimum": "cc2"}}, "confinement.minimum"},
		{map[string]any{"confinement": map[string]any{"classes": []any{"CC4"}}}, "confinement.classes"},
		{map[string]any{"confinement": map[string]any{"minimum": "CC2", "classes": []any{"CC1"}}}, "below confinement.minimum"},
		{map[string]any{"confinement": map[string]any{"runtimes": map[string]any{"CC9": "x"}}}, "no such class"},
		{map[string]any{"confinement": map[string]any{"runtimes": map[string]any{"CC2": "runc"}}}, "gVisor"},
		{map[string]any{"confinement": map[string]any{"runtimes": map[string]any{"CC3": "runsc"}}}, "virtual machine"},
		{map[string]any{"cpu_cap": -1}, "cpu_cap"},
		{map[string]any{"max_memory": -1}, "max_memory"},
		{map[string]any{"max_pids": -1}, "max_pids"},
		{map[string]any{"slots": -1}, "slots"},
		{map[string]any{"allow_caps": []any{"NET_ADMIN"}}, "never given"},
		{map[string]any{"allow_caps": []any{"net_raw"}}, "never given"},
		{map[string]any{"allow_caps": []any{"ALL"}}, "never given"},
	} {
		_, err := hostConfig(operator(t, c.block))
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v, want %q in it", c.block, err, c.words)
		}
	}
	_, err := hostConfig(operator(t, map[string]any{"data_dir": "x", "slots": -1, "endpoint": "tcp://x", "allow_caps": []any{"ALL"}}))
	for _, words := range []string{"4 reasons", "data_dir", "slots", "endpoint", "allow_caps"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
}

// TestFilesOfTheOptions: what is at a path that an option names is said, and
// nothing of what is in it.
func TestFilesOfTheOptions(t *testing.T) {
	dir := t.TempDir()
	key, open, wide := filepath.Join(dir, "key"), filepath.Join(dir, "open"), filepath.Join(dir, "wide")
	if err := os.Mkdir(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{key: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte("hunter2"), mode); err != nil {
			t.Fatal(err)
		}
	}
	credential := func(file string) map[string]any {
		return map[string]any{"file": file, "hosts": []any{"a.example"}, "headers": []any{"X"}, "namespaces": []any{"*"}}
	}
	linked := filepath.Join(dir, "link")
	if err := os.Symlink(wide, linked); err != nil {
		t.Fatal(err)
	}
	h, err := hostConfig(operator(t, map[string]any{
		"ca_file": open, "audit_dir": wide, "otlp": []any{map[string]any{"url": "https://c.example", "ca_file": filepath.Join(dir, "none")}},
		"auth": map[string]any{"config": filepath.Join(dir, "none")}, "volumes": map[string]any{"paths": []any{"/srv/none-of-this", linked}},
		"seccomp_profiles": map[string]any{"strict": dir},
		"credential":       []any{map[string]any{"good": credential(key), "wide": credential(open)}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ca_file": "holds no certificate", "otlp.ca_file": "it is not there", "audit_dir": "0755", "auth.config": "it is not there", "volumes.paths": "it is not there", "seccomp_profiles.strict": "no regular file",
		"credential.good.file": "", "credential.wide.file": "chmod 600",
	}
	if os.Geteuid() != 0 {
		want["audit_dir"] = "" // nobody else can tell
	}
	got := h.Files()
	if i := slices.IndexFunc(got, func(f NamedFile) bool { return f.Path == linked }); i < 0 || !strings.Contains(got[i].Fault, fmt.Sprintf("no mount follows; list %q", wide)) {
		t.Errorf("a link: %+v", got)
	} else {
		got = slices.Delete(got, i, i+1)
	}
	for _, f := range got {
		if f.Needed != (f.Option == "otlp.ca_file" || f.Option == "audit_dir") {
			t.Errorf("%s: needed %v", f.Option, f.Needed)
		}
		if w, known := want[f.Option]; !known || (w == "") != (f.Fault == "") || !strings.Contains(f.Fault, w) || strings.Contains(f.Fault, "hunter2") {
			t.Errorf("%+v, want %q", f, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%+v, want %d", got, len(want))
	}
	if f := (HostConfig{}).Files(); len(f) > 0 {
		t.Errorf("no options: %+v", f)
	}
}
