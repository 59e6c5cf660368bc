package driver_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
)

// This file uses every exported name of the published contract with its exact
// signature: a change of any of them does not compile.

type wantDriver interface {
	Create(ctx context.Context, spec driver.Spec) (driver.Handle, error)
	Suspend(ctx context.Context, id string, warm bool) error
	Resume(ctx context.Context, id string) error
	Snapshot(ctx context.Context, id, ref string, stripEnv []string) (driver.Snapshot, error)
	Prepull(ctx context.Context, ref string) error
	Destroy(ctx context.Context, id string) error
	DestroyContainer(ctx context.Context, id string) error
	RemoveWorkspace(ctx context.Context, sessionID string) error
	Inspect(ctx context.Context, id string) (driver.Handle, error)
	Capacity(ctx context.Context) (used, total int, err error)
	List(ctx context.Context) ([]driver.Listed, error)
}

// Assignable both ways: the method sets are equal, nothing missing, nothing more.
var (
	_ wantDriver    = driver.Driver(nil)
	_ driver.Driver = wantDriver(nil)

	_ driver.Driver = (*driver.Docker)(nil)
	_ driver.Driver = (*driver.Fake)(nil)

	_ func(driver.Engine, driver.DockerOpts) *driver.Docker = driver.NewDocker
	_ func(int) *driver.Fake                                = driver.NewFake

	_ driver.State = driver.StateRunning
	_ driver.State = driver.StateSuspended
	_ driver.State = driver.StateGone
	_ string       = string(driver.State(""))
	_ int          = driver.MaxSetupBytes
)

// Keyed literals of every published struct, each field with its exact type.
var (
	_ = driver.DockerOpts{
		Image:                  "",
		Network:                "",
		TotalSlots:             int(0),
		Label:                  "",
		SessionSeccompProfile:  "",
		SessionAppArmorProfile: "",
	}
	_ = driver.Handle{ID: "", State: driver.State("")}
	_ = driver.HomeMount{Volume: "", Path: ""}
	_ = driver.Listed{SessionID: "", Handle: driver.Handle{}}
	_ = driver.RepoSpec{Owner: "", Name: "", BaseBranch: "", SessionBranch: "", Dir: ""}
	_ = driver.Snapshot{Ref: ""}
	_ = driver.Spec{
		Name:            "",
		Image:           "",
		Cmd:             []string(nil),
		DialURL:         "",
		SessionID:       "",
		EgressAllow:     []string(nil),
		ProxyURL:        "",
		Env:             map[string]string(nil),
		Setup:           "",
		SetupTimeoutSec: int(0),
		Repos:           []driver.RepoSpec(nil),
		Init:            "",
		InitTimeoutSec:  int(0),
		GitAuthorName:   "",
		GitAuthorEmail:  "",
		Home:            (*driver.HomeMount)(nil),
	}
)

func TestD1D2Constants(t *testing.T) {
	for got, want := range map[driver.State]string{
		driver.StateRunning: "running", driver.StateSuspended: "suspended", driver.StateGone: "gone",
	} {
		if string(got) != want {
			t.Errorf("state %q, want %q", got, want)
		}
	}
	if driver.MaxSetupBytes != 524288 {
		t.Errorf("MaxSetupBytes = %d, want 524288", driver.MaxSetupBytes)
	}
}

func TestD4RepoSpecKeys(t *testing.T) {
	want := map[string]string{"Owner": "owner", "Name": "name", "BaseBranch": "base_branch",
		"SessionBranch": "session_branch", "Dir": "dir"}
	ty := reflect.TypeFor[driver.RepoSpec]()
	if ty.NumField() != len(want) {
		t.Errorf("%d fields, want %d", ty.NumField(), len(want))
	}
	for i := range ty.NumField() {
		f := ty.Field(i)
		if got := f.Tag.Get("json"); got != want[f.Name] {
			t.Errorf("%s has tag %q, want %q", f.Name, got, want[f.Name])
		}
	}
}
