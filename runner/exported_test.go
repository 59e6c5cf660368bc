package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// This file uses every exported name of the published contract with its exact
// signature: a change of any of them does not compile.

const (
	_ int64  = runner.DefaultCPUMillis
	_ int64  = runner.DefaultMemoryMiB
	_ int64  = runner.DefaultPidsLimit
	_ string = runner.AgentIdleScript
)

var _ error = runner.ErrExecStreamUnsupported

var (
	_ func(uuid.UUID, runner.ProxyConfig, int) ([]byte, error)   = runner.BuildProxyConfig
	_ func(string) bool                                          = runner.IsKnownNonVaultRuntime
	_ func(string, string, string, uuid.UUID, []string) []string = runner.RecorderArgv
	_ func(runner.Mount) error                                   = runner.ValidateMount
	_ func(string) error                                         = runner.ValidateMountSource
	_ func(string) error                                         = runner.ValidateTarget
	_ interface {
		ImagePresent(context.Context, string) (bool, error)
	} = runner.ImageChecker(nil)
	_ interface {
		ImageRemove(ctx context.Context, ref string) error
	} = runner.ImageRemover(nil)
	_ runner.ImageChecker = (interface {
		ImagePresent(context.Context, string) (bool, error)
	})(nil)
	_ runner.ImageRemover = (interface {
		ImageRemove(context.Context, string) error
	})(nil)
)

// seedRunner is the published Runner, written out again.
type seedRunner interface {
	Name() string
	Capabilities(ctx context.Context) (runner.Capabilities, error)
	CreateSandbox(ctx context.Context, spec runner.SandboxSpec) (runner.Sandbox, error)
	Exec(ctx context.Context, ref string, argv []string) (agentExecID string, err error)
	Wait(ctx context.Context, ref string) (exitCode int, err error)
	Attach(ctx context.Context, ref string, opts runner.AttachOptions) (runner.Session, error)
	ExecStream(ctx context.Context, ref string, spec runner.ExecSpec) (*runner.ExecSession, error)
	Status(ctx context.Context, ref string) (runner.Status, error)
	AgentStatus(ctx context.Context, ref, agentExecID string) (runner.Status, error)
	StopSandbox(ctx context.Context, ref string) error
	KillSandbox(ctx context.Context, ref string) error
}

type seedSession interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Resize(ctx context.Context, cols, rows uint16) error
	Close() error
}

// Assignable both ways: the method sets are equal, nothing missing, nothing more.
var (
	_ seedRunner     = runner.Runner(nil)
	_ runner.Runner  = seedRunner(nil)
	_ seedSession    = runner.Session(nil)
	_ runner.Session = seedSession(nil)
)

// Keyed literals of every published struct, each field with its exact type.
var (
	_ = runner.AttachOptions{Cols: uint16(0), Rows: uint16(0)}
	_ = runner.Capabilities{
		Driver:             "",
		ConfinementClasses: []types.ConfinementClass(nil),
		Resolved:           map[types.ConfinementClass]string(nil),
		StructuralEgress:   false,
		NetworkPolicy:      false,
		SessionRecording:   false,
	}
	_ = runner.ExecSession{
		Stdin:  io.WriteCloser(nil),
		Stdout: io.Reader(nil),
		Stderr: io.Reader(nil),
		Resize: (func(cols, rows uint16) error)(nil),
		Wait:   (func() (int, error))(nil),
		Close:  (func() error)(nil),
	}
	_ = runner.ExecSpec{Argv: []string(nil), Env: []string(nil), TTY: false, Cols: uint16(0), Rows: uint16(0)}
	_ = runner.InjectionGrant{GrantID: uuid.UUID{}, Rule: egress.InjectionRule{}}
	_ = runner.Mount{Source: "", Target: "", ReadOnly: false}
	_ = runner.ProxyConfig{
		RunToken:         "",
		ControlPlaneURL:  "",
		Policy:           types.RunPolicySpec{},
		Injection:        []runner.InjectionGrant(nil),
		MITMCACertPEM:    "",
		MITMCAKeyPEM:     "",
		MITMHosts:        []string(nil),
		MITMLLM:          false,
		GitGrants:        map[string]uuid.UUID(nil),
		UpstreamProxyURL: "",
	}
	_ = runner.Resources{CPUMillis: int64(0), MemoryMiB: int64(0), PidsLimit: int64(0), DiskMiB: int64(0)}
	_ = runner.Sandbox{Ref: "", Driver: "", EnforcedClass: types.ConfinementClass("")}
	_ = runner.SandboxSpec{
		RunID:            uuid.UUID{},
		Image:            "",
		ConfinementClass: types.ConfinementClass(""),
		Env:              map[string]string(nil),
		ProxyConfig:      runner.ProxyConfig{},
		Resources:        runner.Resources{},
		Labels:           map[string]string(nil),
		Mounts:           []runner.Mount(nil),
		Interactive:      false,
	}
	_ = runner.Status{State: types.RunState(""), ExitCode: (*int)(nil), Message: ""}
)

func TestT45Constants(t *testing.T) {
	for _, c := range []struct {
		name string
		got  int64
		want int64
	}{
		{"DefaultCPUMillis", runner.DefaultCPUMillis, 2000},
		{"DefaultMemoryMiB", runner.DefaultMemoryMiB, 4096},
		{"DefaultPidsLimit", runner.DefaultPidsLimit, 512},
		{"ProxyListenPort", runner.ProxyListenPort, 3128},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.name, c.got, c.want)
		}
	}
	// The port is an untyped constant: it fits wherever a number does.
	var _ uint16 = runner.ProxyListenPort

	err := fmt.Errorf("wrapped: %w", runner.ErrExecStreamUnsupported)
	if !errors.Is(err, runner.ErrExecStreamUnsupported) {
		t.Error("errors.Is does not find ErrExecStreamUnsupported")
	}
	if got, want := runner.ErrExecStreamUnsupported.Error(), "runner: ExecStream not supported"; got != want {
		t.Errorf("ErrExecStreamUnsupported reads %q, want %q", got, want)
	}
}

func TestT45JSONTags(t *testing.T) {
	for _, c := range []struct {
		of   any
		want map[string]string // field name to tag; all fields
	}{
		{runner.Capabilities{}, map[string]string{
			"Driver":             "driver",
			"ConfinementClasses": "confinement_classes",
			"Resolved":           "confinement_substrates,omitempty",
			"StructuralEgress":   "structural_egress",
			"NetworkPolicy":      "network_policy",
			"SessionRecording":   "session_recording",
		}},
		{runner.Mount{}, map[string]string{"Source": "source", "Target": "target", "ReadOnly": "read_only"}},
		{runner.InjectionGrant{}, map[string]string{"GrantID": "grant_id", "Rule": "rule"}},
	} {
		ty := reflect.TypeOf(c.of)
		if ty.NumField() != len(c.want) {
			t.Errorf("%s has %d fields, want %d", ty, ty.NumField(), len(c.want))
		}
		for i := range ty.NumField() {
			f := ty.Field(i)
			if got := f.Tag.Get("json"); got != c.want[f.Name] {
				t.Errorf("%s.%s has tag %q, want %q", ty, f.Name, got, c.want[f.Name])
			}
		}
	}
}
