package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K25, K30: what an image may not set for a task is left out by its bare name,
// unless the job sets it.
func TestK30ImageEnv(t *testing.T) {
	image := []string{"PATH=/bin", "LD_PRELOAD=/evil.so", "LD_AUDIT=x", "NOMAD_TOKEN=t", "VAULT_TOKEN=t", "WARDYN_RUN_TOKEN=x",
		"RAINIER_SETUP_B64=x", "WARDYN_RUN_ID=forged", "LD_PRELOAD=twice", "LD_PRELOADX=kept"}
	got := withoutImageEnv([]string{"LD_AUDIT=job", "WARDYN_RUN_ID=run"}, image)
	want := []string{"LD_AUDIT=job", "LD_PRELOAD", "NOMAD_TOKEN", "RAINIER_SETUP_B64", "VAULT_TOKEN", "WARDYN_RUN_ID=run", "WARDYN_RUN_TOKEN"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	env := []string{"B=1", "A=2"}
	if got := withoutImageEnv(env, []string{"PATH=/bin"}); !slices.Equal(got, env) {
		t.Errorf("got %q", got)
	}
}

// K7: an environment that no program can be started with is refused.
func TestK7ImageEnvSize(t *testing.T) {
	fits := "BIG=" + strings.Repeat("x", maxEnvString-5)
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 100<<10))
	}
	for name, c := range map[string]struct {
		env   map[string]string
		image []string
		want  string // part of the only fault; "" is none
	}{
		"largest":                 {nil, []string{fits}, ""},
		"too large":               {nil, []string{fits + "x"}, "sets BIG to"},
		"too large, and replaced": {map[string]string{"BIG": "small"}, []string{fits + "x"}, ""},
		"too many":                {nil, many, "bytes together"},
		"too many with the job's": {map[string]string{"J": strings.Repeat("x", 100<<10)}, many[:19], "bytes together"},
		"just as many":            {nil, many[:18], ""},
		"no name":                 {nil, []string{"=x"}, `sets "=x"`},
		"a NUL byte":              {nil, []string{"A=b\x00c"}, "no variable"},
		"a name alone":            {nil, []string{"A"}, ""},
	} {
		errs := checkEnvSize(runner.SandboxSpec{Image: "i", Env: c.env}, imageFacts{Env: c.image})
		if (c.want == "") != (len(errs) == 0) || c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
