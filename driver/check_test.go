package driver

import (
	"errors"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func TestCheck(t *testing.T) {
	atLimit, over := strings.Repeat("x", MaxSetupBytes), strings.Repeat("x", MaxSetupBytes+1)
	floor := types.RunPolicySpec{MinConfinementClass: types.CC2}
	for name, c := range map[string]struct {
		spec Spec
		want string // "" is accepted
	}{
		"D3 setup at the limit":     {Spec{Image: "i", Setup: atLimit}, ""},
		"D3 init at the limit":      {Spec{Image: "i", Init: atLimit}, ""},
		"D3 setup over":             {Spec{Image: "i", Setup: over}, "setup: the script has 524289 bytes, the limit is 524288"},
		"D3 init over":              {Spec{Image: "i", Init: over}, "init: the script has 524289 bytes, the limit is 524288"},
		"D8 no image":               {Spec{}, "image: there is none"},
		"D8 the sandbox's image":    {Spec{Sandbox: runner.SandboxSpec{Image: "i"}}, ""},
		"D8 one image twice":        {Spec{Image: "i", Sandbox: runner.SandboxSpec{Image: "i"}}, ""},
		"D8 two images":             {Spec{Image: "i", Sandbox: runner.SandboxSpec{Image: "j"}}, "two different ones"},
		"D12 home":                  {Spec{Image: "i", Home: &HomeMount{"v", "/home/agent"}}, ""},
		"D12 home without path":     {Spec{Image: "i", Home: &HomeMount{Volume: "v"}}, "must both be given"},
		"D12 home without volume":   {Spec{Image: "i", Home: &HomeMount{Path: "/h"}}, "must both be given"},
		"D12 home at a bad path":    {Spec{Image: "i", Home: &HomeMount{"v", "h/../x"}}, "absolute, clean"},
		"D12 home at the root":      {Spec{Image: "i", Home: &HomeMount{"v", "/"}}, "absolute, clean"},
		"D16 a reserved name":       {Spec{Image: "i", Env: map[string]string{"RAINIER_SETUP_B64": "x"}}, `env "RAINIER_SETUP_B64"`},
		"D16 another":               {Spec{Image: "i", Env: map[string]string{"WARDYN_X": "x"}}, `env "WARDYN_X"`},
		"D16 almost reserved":       {Spec{Image: "i", Env: map[string]string{"WARDYN": "x", "MY_WARDYN_X": ""}}, ""},
		"an empty name":             {Spec{Image: "i", Env: map[string]string{"": "x"}}, `env ""`},
		"a name with =":             {Spec{Image: "i", Env: map[string]string{"A=B": "x"}}, `env "A=B"`},
		"a value with NUL":          {Spec{Image: "i", Env: map[string]string{"A": "x\x00"}}, `env "A": its value`},
		"K27 the sidecar's URL":     {Spec{Image: "i", ProxyURL: "http://wardyn-proxy:3128"}, ""},
		"K27 another proxy":         {Spec{Image: "i", ProxyURL: "http://proxy.corp:8080"}, "proxy_url"},
		"K4 command on both sides":  {Spec{Image: "i", Cmd: []string{"a"}, Sandbox: runner.SandboxSpec{Task: &runner.TaskProcess{Argv: []string{"b"}}}}, "command"},
		"K5 idle with a command":    {Spec{Image: "i", Cmd: []string{"a"}, Sandbox: runner.SandboxSpec{Task: &runner.TaskProcess{Idle: true}}}, "idle"},
		"T2 an unknown class":       {Spec{Image: "i", Sandbox: runner.SandboxSpec{ConfinementClass: "cc2"}}, `confinement "cc2"`},
		"T3 below the floor":        {Spec{Image: "i", Sandbox: runner.SandboxSpec{ProxyConfig: runner.ProxyConfig{Policy: floor}}}, "below the policy's minimum"},
		"T3 at the floor":           {Spec{Image: "i", Sandbox: runner.SandboxSpec{ConfinementClass: types.CC2, ProxyConfig: runner.ProxyConfig{Policy: floor}}}, ""},
		"T38 a bad mount":           {Spec{Image: "i", Sandbox: runner.SandboxSpec{Mounts: []runner.Mount{{Source: "/etc", Target: "/work"}}}}, "/etc"},
		"D17 a command of the spec": {Spec{Image: "i", Cmd: []string{"a"}}, ""},
	} {
		err := check(c.spec, "")
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.want != "" && !errors.Is(err, runner.ErrInvalid) && !errors.Is(err, runner.ErrDenied):
			t.Errorf("%s: %v wraps no sentinel", name, err)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	err := check(Spec{
		Setup:    strings.Repeat("x", MaxSetupBytes+1),
		Home:     &HomeMount{Volume: "v"},
		Env:      map[string]string{"WARDYN_A": "", "WARDYN_B": ""},
		ProxyURL: "http://other",
		Sandbox:  runner.SandboxSpec{ConfinementClass: "best"},
	}, "")
	for _, want := range []string{"image", "setup", "home", "WARDYN_A", "WARDYN_B", "proxy_url", "confinement"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}

func TestUnsupportedIsNamedInOneError(t *testing.T) {
	err := unsupported(DockerOpts{Network: "n", SessionSeccompProfile: "s", SessionAppArmorProfile: "a"})
	if !errors.Is(err, runner.ErrUnsupported) {
		t.Fatalf("%v, want ErrUnsupported", err)
	}
	for _, want := range []string{"DockerOpts.Network", "SessionSeccompProfile", "SessionAppArmorProfile"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if err := unsupported(DockerOpts{}); err != nil {
		t.Errorf("a plain session: %v", err)
	}
}

func TestD40StripNames(t *testing.T) {
	for name, ok := range map[string]bool{"A": true, "RAINIER_SETUP_B64": true, "": false, "A=B": false, "A B": false, "A\n": false} {
		if err := checkStrip([]string{name}); (err == nil) != ok {
			t.Errorf("%q: %v, want accepted %v", name, err, ok)
		}
	}
}
