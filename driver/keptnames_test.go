package driver

import (
	"strings"
	"testing"
)

func TestKeptNames(t *testing.T) {
	for volume, want := range map[string][3]string{
		NamedWorkspace("team", "web"):     {"workspace", "team", "web"},
		NamedWorkspace("a-b", "x y/é__z"): {"workspace", "a-b", "x y/é__z"},
		NamedHome("default", "alice"):     {"home", "default", "alice"},
		NamedVolume("default", "cache"):   {"volume", "default", "cache"},
		WorkspaceVolume("s1"):             {"workspace", "", "s1"},
		WorkspaceVolume("a b"):            {"workspace", "", "a b"},
		"something else":                  {"", "", "something else"},
	} {
		if k, ns, n := KeptName(volume); [3]string{k, ns, n} != want {
			t.Errorf("%q: %q, %q, %q; want %q", volume, k, ns, n, want)
		}
	}
	long := NamedHome("default", strings.Repeat("é", 200))
	if k, ns, n := KeptName(long); k != "home" || ns != "" || n != long {
		t.Errorf("a long one: %q, %q, %q", k, ns, n)
	}
}
