package driver

import (
	"slices"
	"testing"
)

func TestD38MintedRefsAreUnique(t *testing.T) {
	a, b := mintedRef("6f9619ff-8b86-5d01-b42d-00cf4fc964ff"), mintedRef("6f9619ff-8b86-5d01-b42d-00cf4fc964ff")
	if a == b || a[:len("wardyn-snap:6f9619ff8b86-")] != "wardyn-snap:6f9619ff8b86-" {
		t.Errorf("%q and %q", a, b)
	}
}

func TestD43StripList(t *testing.T) {
	got := StripEnv(map[string]string{"KEY": "secret", "HTTP_PROXY": "x"})
	for _, want := range []string{"KEY", "RAINIER_SETUP_B64", "RAINIER_INIT_TIMEOUT", "WARDYN_SESSION", "no_proxy", "HTTP_PROXY"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not stripped", want)
		}
	}
	if len(got) != 16 {
		t.Errorf("%q", got)
	}
}

func TestK30NamedSnapshots(t *testing.T) {
	seen := map[string]string{}
	for _, ns := range []string{"default", "Team", "x-5465616d", "-a", "a-b", "a--b", ""} {
		ref := NamedSnapshot(ns, "n")
		if other, dup := seen[ref]; dup {
			t.Errorf("%q and %q share %q", ns, other, ref)
		}
		seen[ref] = ns
	}
	if ref := NamedSnapshot("default", "n"); ref != "wardyn-snap/default/n" {
		t.Errorf("%q", ref)
	}
}
