package docker

import (
	"slices"
	"testing"
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
