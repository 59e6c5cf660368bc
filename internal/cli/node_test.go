package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/doctor"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

func TestDoctor(t *testing.T) {
	away := doctor.Facts{Endpoint: "unix:///x.sock", EngineErr: "refused", Host: doctor.Host{Root: true}}
	for name, c := range map[string]struct {
		args   []string
		facts  doctor.Facts
		err    error
		code   int
		stdout string
		stderr string
	}{
		"an error": {nil, away, nil, 1, "ERROR  engine: the Docker engine at unix:///x.sock does not answer: refused\n       -> start it", ""},
		"JSON":     {[]string{"-json"}, away, nil, 1, `"worst": "error"`, ""},
		"no facts": {nil, away, errors.New("no host"), 2, "", "error: no host"},
		"both": {[]string{"-plugin-config", filepath.Join("testdata", "validate", "agent.hcl")}, away, errors.New("no host"), 2, "",
			"agent.hcl:11: data_dirr: there is no option of this name; did you mean data_dir?\nerror: "},
		"an argument":  {[]string{"x"}, away, nil, 2, "", "unexpected argument"},
		"absent file":  {[]string{"-plugin-config", "/nonexistent"}, away, nil, 2, "", "no such file"},
		"config fault": {[]string{"-plugin-config", filepath.Join("testdata", "validate", "agent.hcl")}, away, nil, 1, "agent.hcl:11: data_dirr: there is no option", ""},
	} {
		var out, errs bytes.Buffer
		e := testEnv(&out, &errs, append([]string{"doctor"}, c.args...)...)
		e.Facts = func(context.Context, plugin.HostConfig, bool) (doctor.Facts, error) { return c.facts, c.err }
		if code := Main(t.Context(), e); code != c.code || !strings.Contains(out.String(), c.stdout) || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("%s: exit %d\n%s\n%s", name, code, out.String(), errs.String())
		}
	}
}

func TestPs(t *testing.T) {
	list := Installation{
		Instance: "0011", Slots: Usage{1, 4}, Networks: Usage{2, 8192}, Capacity: "ok",
		Runs: []Run{{Ref: "wardyn_agent_1", State: "running", Class: "CC2", Image: "i:1", Namespace: "default", Job: "j\x1b[1m", Task: "t",
			Alloc: "0123456789", Created: time.Unix(0, 0)}},
	}
	call := func(list Installation, err error, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		e := testEnv(&out, &errs, append([]string{"ps"}, args...)...)
		e.Installed = func(context.Context, plugin.HostConfig) (Installation, error) { return list, err }
		return Main(t.Context(), e), out.String(), errs.String()
	}
	code, out, _ := call(list, nil)
	want := "01234567  default    j\\x1b[1m  t     CC2    running  1970-01-01 00:00:00  wardyn_agent_1  i:1\n1 of 4 slots in use, 2 of 8192 networks leased: capacity ok\n"
	if code != exitOK || !strings.HasSuffix(out, want) || !strings.HasPrefix(out, "ALLOC ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	code, out, _ = call(list, nil, "-json")
	var back Installation
	if err := json.Unmarshal([]byte(out), &back); err != nil || code != exitOK || len(back.Runs) != 1 || back.Slots != list.Slots {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	if code, out, _ = call(Installation{Capacity: "ok"}, nil); code != exitOK || strings.Contains(out, "ALLOC") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, _, errs := call(list, errors.New("there is no installation here")); code != exitFailed || !strings.Contains(errs, "no installation") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
