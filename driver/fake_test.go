package driver_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func TestD53FakeIdsAndRefs(t *testing.T) {
	f := driver.NewFake(3)
	for _, want := range []string{"fake-1", "fake-2"} {
		if h, err := f.Create(t.Context(), driver.Spec{}); h.ID != want || err != nil {
			t.Errorf("%+v, %v; want %s", h, err, want)
		}
	}
	for _, want := range []string{"fake-image:fake-1-1", "fake-image:fake-1-2"} {
		if s, err := f.Snapshot(t.Context(), "fake-1", "", nil); s.Ref != want || err != nil {
			t.Errorf("%+v, %v; want %s", s, err, want)
		}
	}
	if s, err := f.Snapshot(t.Context(), "fake-1", "rainier-env:a-b", []string{"A"}); s.Ref != "rainier-env:a-b" || err != nil {
		t.Errorf("D37: %+v, %v", s, err)
	}
	if got := f.Strips(); len(got) != 3 || !slices.Equal(got[2], []string{"A"}) {
		t.Errorf("strips %v", got)
	}
	if _, err := f.Snapshot(t.Context(), "fake-1", "", []string{"A=B"}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("D40: %v", err)
	}
	if got := f.Strips(); len(got) != 3 {
		t.Errorf("D40: a refused snapshot was made: %v", got)
	}
	if _, err := f.Snapshot(t.Context(), "never", "", nil); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("D36: %v", err)
	}
}

func TestD54FakeHome(t *testing.T) {
	f := driver.NewFake(3)
	if _, err := f.Create(t.Context(), driver.Spec{Home: &driver.HomeMount{Volume: "v"}}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("D12: half a home: %v", err)
	}
	home := &driver.HomeMount{Volume: "home-a", Path: "/home/agent"}
	h, err := f.Create(t.Context(), driver.Spec{SessionID: "s", Home: home})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Volumes(); !slices.Equal(got, []string{"home-a", "rainier-ws-s"}) {
		t.Errorf("volumes %v", got)
	}
	if err := f.Destroy(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.Volumes(); !slices.Equal(got, []string{"home-a"}) {
		t.Errorf("D47: volumes %v, want the home kept", got)
	}
}

func TestD56FakeShowsCopies(t *testing.T) {
	f := driver.NewFake(3)
	spec := driver.Spec{SessionID: "s", Env: map[string]string{"A": "1"}, Cmd: []string{"c"}}
	if _, err := f.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	got := f.LastSpec()
	if !reflect.DeepEqual(got, spec) {
		t.Errorf("last %+v, want %+v", got, spec)
	}
	got.Env["A"], got.Cmd[0] = "2", "d"
	spec.Env["A"] = "3"
	if again := f.LastSpec(); again.Env["A"] != "1" || again.Cmd[0] != "c" {
		t.Errorf("the fake shares memory: %+v", again)
	}
	if err := f.Prepull(t.Context(), "image"); err != nil {
		t.Fatal(err)
	}
	if got := f.Pulls(); !slices.Equal(got, []string{"image"}) {
		t.Errorf("pulls %v", got)
	}
}
