package driver

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want map[string]string
	}{
		"empty": {Spec{}, map[string]string{}},
		"D16 dial and session": {Spec{DialURL: "http://relay", SessionID: "s"},
			map[string]string{"WARDYN_DIAL": "http://relay", "WARDYN_SESSION": "s"}},
		"D16 the job's own last": {Spec{Env: map[string]string{"A": "1", "B": ""}},
			map[string]string{"A": "1", "B": ""}},
		"D16 the layer above wins": {
			Spec{Env: map[string]string{"A": "job", "B": "job"}, Sandbox: runner.SandboxSpec{Env: map[string]string{"A": "above"}}},
			map[string]string{"A": "above", "B": "job"}},
		"D18 hosts are no variables":                           {Spec{EgressAllow: []string{"a.example"}}, map[string]string{}},
		"D19 nor is the name":                                  {Spec{Name: "label"}, map[string]string{}},
		"D20 D21 D22 K27 the substrate alone sets the proxy's": {Spec{ProxyURL: sidecarURL}, map[string]string{}},
		"D23 setup": {Spec{Setup: "#!/bin/sh\necho hi\n", SetupTimeoutSec: 900},
			map[string]string{"RAINIER_SETUP_B64": b64("#!/bin/sh\necho hi\n"), "RAINIER_SETUP_TIMEOUT": "900"}},
		"D23 a timeout alone is nothing": {Spec{SetupTimeoutSec: 900}, map[string]string{}},
		"D24 zero as it is": {Spec{Setup: "x"},
			map[string]string{"RAINIER_SETUP_B64": b64("x"), "RAINIER_SETUP_TIMEOUT": "0"}},
		"D24 negative as it is": {Spec{Setup: "x", SetupTimeoutSec: -5},
			map[string]string{"RAINIER_SETUP_B64": b64("x"), "RAINIER_SETUP_TIMEOUT": "-5"}},
		"D25 init": {Spec{Init: "y", InitTimeoutSec: 7},
			map[string]string{"RAINIER_INIT_B64": b64("y"), "RAINIER_INIT_TIMEOUT": "7"}},
		"D25 both": {Spec{Setup: "x", Init: "y"}, map[string]string{
			"RAINIER_SETUP_B64": b64("x"), "RAINIER_SETUP_TIMEOUT": "0", "RAINIER_INIT_B64": b64("y"), "RAINIER_INIT_TIMEOUT": "0"}},
		"D26 no repositories": {Spec{Repos: []RepoSpec{}}, map[string]string{}},
		"D27 author":          {Spec{GitAuthorName: "A B"}, map[string]string{"RAINIER_GIT_AUTHOR_NAME": "A B"}},
		"D27 mail":            {Spec{GitAuthorEmail: "a@b"}, map[string]string{"RAINIER_GIT_AUTHOR_EMAIL": "a@b"}},
	} {
		if got := environment(c.spec); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestD26RepositoriesRoundTrip(t *testing.T) {
	repos := []RepoSpec{
		{Owner: "acme", Name: "web", BaseBranch: "main", SessionBranch: "wardyn/s/x", Dir: "web"},
		{Owner: "acme", Name: `q"uote`},
	}
	raw, err := base64.StdEncoding.DecodeString(environment(Spec{Repos: repos})["RAINIER_REPOS_B64"])
	if err != nil {
		t.Fatal(err)
	}
	var got []RepoSpec
	if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, repos) {
		t.Errorf("%s decodes to %v (%v), want %v", raw, got, err, repos)
	}
}

func TestD16EnvironmentIsACopy(t *testing.T) {
	spec := Spec{Env: map[string]string{"A": "1"}, Sandbox: runner.SandboxSpec{Env: map[string]string{"B": "2"}}}
	environment(spec)["A"] = "changed"
	if spec.Env["A"] != "1" || len(spec.Env) != 1 || len(spec.Sandbox.Env) != 1 {
		t.Errorf("the Spec was written to: %v, %v", spec.Env, spec.Sandbox.Env)
	}
}

func TestD11WorkspaceVolume(t *testing.T) {
	for id, want := range map[string]string{
		"":        "",
		"s1":      "rainier-ws-s1",
		"my_task": "rainier-ws-my_task",
		"a1b2c3d4-0000-4000-8000-000000000000.web": "rainier-ws-a1b2c3d4-0000-4000-8000-000000000000.web",
		// K28: blanks and Unicode occur in task names.
		"a b":    "rainier-ws-a_20b__",
		"a/../b": "rainier-ws-a_2f.._2fb__",
		"é":      "rainier-ws-_c3_a9__",
		"a__b":   "rainier-ws-a_5f_5fb__",
	} {
		if got := WorkspaceVolume(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestK28NoTwoSessionsShareAName(t *testing.T) {
	long := strings.Repeat("x", maxEscaped)
	ids := []string{"a b", "a_20b", "a_20b__", "a  b", "a__b", "a_5f_5fb__", "a_b", "a-b", "a.b", "a\x00b", "A b",
		long, long + "y", long + "z", long + " ", strings.Repeat(" ", 100), strings.Repeat(" ", 101)}
	seen := map[string]string{}
	for _, id := range ids {
		v := WorkspaceVolume(id)
		if other, dup := seen[v]; dup {
			t.Errorf("%q and %q share %q", id, other, v)
		}
		seen[v] = id
		if len(v) > 255 || strings.ContainsFunc(v, func(r rune) bool { return r > 127 || !nameByte(byte(r)) }) {
			t.Errorf("%q is no volume name", v)
		}
	}
	if len(seen) != len(ids) {
		t.Errorf("%d names for %d ids: %v", len(seen), len(ids), slices.Collect(maps.Keys(seen)))
	}
}
