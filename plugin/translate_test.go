package plugin

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var update = flag.Bool("update", false, "write the golden files anew")

const allocID = "5d1c5c4e-9b7a-4f0c-8f1d-3a470f6b1f5e"

// Two operators: one who opened nothing and one who opened what can be opened.
var (
	closedHost = HostConfig{}
	openHost   = HostConfig{
		AllowAllEgress: true, AllowSecretsDir: true, ExposeTokens: true,
		AllowCaps: []string{"CHOWN", "SETUID"}, CPUCapMillis: 3000, MaxMemoryMiB: 2048, MaxPids: 256,
		AllowDomains: []string{"*.example.com", "db.example.org:5432+tcp"},
		DenyDomains:  []string{"telemetry.example.com"},
		MinClass:     types.CC1,
		GitHost:      GitHost{GitHosts: []string{"github.com"}},
	}
	node = facts{
		CPUs: 8, TotalMHz: 16000, MemoryMiB: 8192, StageDir: "/stage/run",
		Classes: []types.ConfinementClass{types.CC1, types.CC2},
		Why:     map[types.ConfinementClass]string{types.CC3: "no Kata runtime is registered"},
		Sockets: []string{"/alloc/tmp/consul_grpc.sock", "/secrets/api.sock"},
		Secrets: []string{"nomad_token"},
		Read:    func(s taskpath.Source) ([]byte, error) { return []byte("the text of " + s.String()), nil },
	}
)

// clientTask is a task of a job file as a client sends it: its config decoded
// by our schema and its environment built.
func clientTask(t *testing.T, file string) *driverpb.TaskConfig {
	t.Helper()
	job, err := jobfile.ParseFile(file, jobfile.Options{})
	var refused *jobfile.Error
	if err != nil && (!errors.As(err, &refused) || refused.Faulty()) {
		t.Fatal(err)
	}
	task := job.Groups[0].Tasks[0]
	env := map[string]string{
		"NOMAD_ALLOC_ID": allocID, "NOMAD_TOKEN": "secret", "VAULT_TOKEN": "secret", "NOMAD_TOKEN_other": "secret",
		"NOMAD_SECRETS_DIR": "/secrets", "NOMAD_TASK_DIR": "/local", "NOMAD_ALLOC_DIR": "/alloc",
	}
	for k, v := range task.Env {
		env[k] = v
	}
	config, err := hclconf.Msgpack(taskSpec(), task.Config, hclconf.Scope{Env: env}.Variables())
	if err != nil {
		t.Fatal(err)
	}
	r := task.Resources
	var ports []*driverpb.PortMapping
	if n := job.Groups[0].Network; n != nil {
		for i, p := range n.Ports {
			ports = append(ports, &driverpb.PortMapping{Label: p.Label, Value: int32(24000 + i), To: int32(p.To), HostIp: "192.0.2.7"})
		}
	}
	return &driverpb.TaskConfig{
		Id: allocID + "/" + task.Name + "/0badcafe", Name: task.Name, AllocId: allocID,
		JobId: job.ID, Namespace: "default", TaskGroupName: job.Groups[0].Name, User: task.User,
		AllocDir: "/nomad/alloc/" + allocID, Env: env, MsgpackDriverConfig: config,
		Resources: &driverpb.Resources{
			Ports: ports,
			AllocatedResources: &driverpb.AllocatedTaskResources{
				Cpu:    &driverpb.AllocatedCpuResources{CpuShares: int64(r.CPU)},
				Memory: &driverpb.AllocatedMemoryResources{MemoryMb: int64(r.MemoryMB), MemoryMaxMb: int64(r.MemoryMaxMB)},
			},
			LinuxResources: &driverpb.LinuxResources{CpuShares: int64(r.CPU), PercentTicks: float64(r.CPU) / 16000},
		},
	}
}

func decodeTask(t *testing.T, tc *driverpb.TaskConfig) TaskConfig {
	t.Helper()
	var c TaskConfig
	if err := msgpack.Decode(tc.GetMsgpackDriverConfig(), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGolden: every job in testdata gives the value, or the refusal, beside it.
// Files named open-* are judged under the open operator.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.nomad.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal("no job files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".nomad.hcl")
		t.Run(name, func(t *testing.T) {
			host := closedHost
			if strings.HasPrefix(name, "open-") {
				host = openHost
			}
			tc := clientTask(t, file)
			p, err := planTask(tc, decodeTask(t, tc), host, node)
			var got any = p
			if err != nil {
				var f *faults
				if !errors.As(err, &f) {
					t.Fatal(err)
				}
				lines := []string{f.what}
				for _, one := range f.list {
					lines = append(lines, one.String())
				}
				got = map[string]any{"refused": lines}
			}
			compare(t, "testdata/"+name+".json", got)
		})
	}
}

// set leaves out of a JSON value what says nothing: null, false, 0 and "". An
// empty list stays, for it can mean something else than none.
func set(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = set(e); e == nil || e == false || e == float64(0) || e == "" {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = set(v[i])
		}
	}
	return v
}

func compare(t *testing.T, file string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var generic any
	if err := json.Unmarshal(b, &generic); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(set(generic), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run with -update and look at the change.\ngot:\n%s", file, got)
	}
}

// TestI7FiveMistakes is the job of the issue: one error, five faults, five
// fixes.
func TestI7FiveMistakes(t *testing.T) {
	tc := clientTask(t, "../jobs/mistakes.nomad.hcl")
	_, err := planTask(tc, decodeTask(t, tc), closedHost, node)
	var f *faults
	if !errors.As(err, &f) || len(f.list) != 5 {
		t.Fatalf("got %v, want five faults", err)
	}
	for _, words := range []string{
		"refused for 5 reasons",
		`confinement = "CC9"`, "write CC1",
		`network_mode = "host"`, "egress.allow",
		"privileged = true", "remove the line",
		`work_dir = "not/absolute"`, "want an absolute path",
		"https://example.com/", "no scheme",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
	if strings.ContainsAny(err.Error(), "\n|") {
		t.Errorf("the message does not fit a table: %v", err)
	}
}

// TestJobsAreTaken: every task of the jobs and examples of this repository is
// taken as it stands, but for the one that is there to be refused.
func TestJobsAreTaken(t *testing.T) {
	var files []string
	for _, p := range []string{"../jobs/*.nomad.hcl", "../examples/*/*.nomad.hcl"} {
		found, err := filepath.Glob(p)
		if err != nil || len(found) == 0 {
			t.Fatal(p, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		tc := clientTask(t, file)
		_, err := planTask(tc, decodeTask(t, tc), closedHost, node)
		if refused := err != nil; refused != strings.Contains(file, "mistakes") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestI3SecretsStayOut: no value of a token or of an option that may hold a
// password is in a plan, a state or a refusal.
func TestI3SecretsStayOut(t *testing.T) {
	tc := clientTask(t, "testdata/minimal.nomad.hcl")
	p, err := planTask(tc, decodeTask(t, tc), closedHost, node)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(p)
	if strings.Contains(string(b), "secret\"") {
		t.Errorf("a token is in the plan: %s", b)
	}
	c := decodeTask(t, tc)
	c.Declined = map[string]any{
		"inject": []any{map[string]any{"x": []any{map[string]any{"value": "hunter2"}}}},
	}
	c.Auth = []any{map[string]any{"username": "u", "password": "hunter2"}}
	if p, err := planTask(tc, TaskConfig{Image: "busybox", ImageTaskConfig: ImageTaskConfig{Auth: c.Auth}}, closedHost, node); err != nil {
		t.Error(err)
	} else if b, _ := json.Marshal(p); strings.Contains(string(b)+fmt.Sprintf("%v %+v %#v", p, p, p), "hunter2") {
		t.Error("a registry password shows in the plan")
	}
	c.Auth = []any{map[string]any{"username": "u", "passwrd": "hunter2"}}
	tc.Env["WARDYN_KEY"] = "hunter2"
	_, err = planTask(tc, c, closedHost, node)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("refusal: %v", err)
	}
}

func TestT4ClassChoice(t *testing.T) {
	cc1, cc2, cc3 := types.CC1, types.CC2, types.CC3
	all := []types.ConfinementClass{cc1, cc2, cc3}
	for _, c := range []struct {
		name    string
		asked   types.ConfinementClass
		min     types.ConfinementClass
		offered []types.ConfinementClass
		works   []types.ConfinementClass
		want    types.ConfinementClass // "" is a refusal
	}{
		{"strongest that works", "", "", nil, all, cc3},
		{"strongest that is offered", "", "", all[:2], all, cc2},
		{"only what works", "", "", nil, all[:1], cc1},
		{"none works at the minimum", "", cc2, nil, all[:1], ""},
		{"nothing works", "", "", nil, nil, ""},
		{"as asked", cc1, "", nil, all, cc1},
		{"asked and broken is not downgraded", cc2, "", nil, all[:1], ""},
		{"asked and broken is not upgraded", cc1, "", nil, all[1:], ""},
	} {
		f := &faults{}
		got := chooseClass(ask{Class: c.asked}, HostConfig{MinClass: c.min, Classes: c.offered}, facts{Classes: c.works}, f)
		if refused := f.err() != nil; refused != (c.want == "") {
			t.Errorf("%s: refused %v (%v)", c.name, refused, f.err())
		} else if !refused && got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestK43Caps(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  ask
		g    given
		h    HostConfig
		want int64
	}{
		{"default", ask{}, given{CPUShare: 0.1}, HostConfig{}, 2000},
		{"operator's", ask{}, given{}, HostConfig{CPUCapMillis: 500}, 500},
		{"reserved cores raise the default", ask{}, given{Cores: "0-3"}, HostConfig{}, 4000},
		{"and not the operator's", ask{}, given{Cores: "0,1,2"}, HostConfig{CPUCapMillis: 500}, 500},
		{"hard limit", ask{HardCPU: true}, given{CPUShare: 0.125}, HostConfig{}, 1000},
		{"hard limit below the operator's only", ask{HardCPU: true}, given{CPUShare: 1}, HostConfig{CPUCapMillis: 500}, 500},
		{"never more than there is", ask{}, given{}, HostConfig{CPUCapMillis: 64000}, 8000},
		{"never nothing", ask{HardCPU: true}, given{CPUShare: 0.0000001}, HostConfig{}, 10},
	} {
		if got := cpuCap(c.ask, c.g, c.h, node); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
	for shares, want := range map[int64]int64{0: 0, 1: 2, 500: 500, 1 << 20: 1 << 18} {
		if got := cpuShares(given{CPUShares: shares}, node); got != want {
			t.Errorf("shares %d: got %d, want %d", shares, got, want)
		}
	}
	if got := cpuShares(given{CPUShares: 1 << 18}, facts{TotalMHz: 1 << 19}); got != 1<<17 {
		t.Errorf("a large node scales down: got %d", got)
	}
}

func TestMemoryLimits(t *testing.T) {
	for _, c := range []struct {
		name               string
		memory, most, ceil int64
		hard, soft         int64
		refused            bool
	}{
		{"plain", 256, 0, 0, 256, 0, false},
		{"oversubscribed", 256, 1024, 0, 1024, 256, false},
		{"trap 35: no limit is the node's", 256, -1, 0, 8192, 256, false},
		{"trap 35: no limit is the operator's", 256, -1, 2048, 2048, 256, false},
		{"at the ceiling", 2048, 0, 2048, 2048, 0, false},
		{"above the ceiling", 2049, 0, 2048, 0, 0, true},
		{"memory_max above the ceiling", 256, 2049, 2048, 0, 0, true},
		{"soft above the ceiling", 4096, -1, 2048, 0, 0, true},
	} {
		f := &faults{}
		var g given
		g.readResources(&driverpb.Resources{AllocatedResources: &driverpb.AllocatedTaskResources{
			Memory: &driverpb.AllocatedMemoryResources{MemoryMb: c.memory, MemoryMaxMb: c.most},
		}}, HostConfig{MaxMemoryMiB: c.ceil}, f)
		if refused := f.err() != nil; refused != c.refused {
			t.Errorf("%s: refused %v: %v", c.name, refused, f.err())
		} else if hard := memoryCap(g, node); !refused && (hard != c.hard || g.SoftMiB != c.soft) {
			t.Errorf("%s: got %d and %d, want %d and %d", c.name, hard, g.SoftMiB, c.hard, c.soft)
		}
	}
}

func TestK33ClientMounts(t *testing.T) {
	a := ask{Binds: []bind{{Target: "/taken"}}}
	f := &faults{}
	var g given
	g.readMounts([]*driverpb.Mount{
		{HostPath: "/srv/db", TaskPath: "/var/lib/db"},
		{HostPath: "/srv/ro", TaskPath: "/ro", Readonly: true, PropagationMode: "private"},
		{HostPath: "/dev", TaskPath: "/dev"},
		{HostPath: "/x", TaskPath: "/proc/x"},
		{HostPath: "/x", TaskPath: "/local/x"},
		{HostPath: "/x", TaskPath: "/taken"},
		{HostPath: "/x", TaskPath: "/ro"},
		{HostPath: "/x", TaskPath: "/b", PropagationMode: "bidirectional"},
	}, a, f)
	if len(g.Mounts) != 2 || g.Mounts[0].Source != "/srv/db" || g.Mounts[0].ReadOnly || !g.Mounts[1].ReadOnly {
		t.Errorf("mounts: %+v", g.Mounts)
	}
	if len(f.list) != 6 {
		t.Errorf("%d refusals, want 6: %v", len(f.list), f.err())
	}
}

func TestK30GivenRefusals(t *testing.T) {
	f := &faults{}
	readGiven(&driverpb.TaskConfig{
		Name:    "t",
		Env:     map[string]string{"WARDYN_X": "1", "RAINIER_SETUP_B64": "1", "NOMAD_UPSTREAM_ADDR_db": "127.0.0.1:1", "OK": "1"},
		Devices: []*driverpb.Device{{TaskPath: "/dev/nvidia0"}},
	}, ask{}, HostConfig{}, f)
	var fields []string
	for _, one := range f.list {
		fields = append(fields, one.Field)
	}
	if want := []string{"connect", "env.RAINIER_SETUP_B64", "env.WARDYN_X", "device"}; !slices.Equal(fields, want) {
		t.Errorf("refused %v, want %v", fields, want)
	}
}

// TestI7ProcessRefusals: what no engine can start is refused before one is asked.
func TestI7ProcessRefusals(t *testing.T) {
	for _, c := range []struct {
		config TaskConfig
		want   string // field of the one fault; "" is none
	}{
		{TaskConfig{Command: "/bin/sh", Args: []string{"-c", "a b"}, WorkDir: "/work"}, ""},
		{TaskConfig{Command: "/bin/sh", Args: []string{"a\x00b"}}, "command, args, entrypoint"},
		{TaskConfig{Command: "/bin/\x00sh"}, "command, args, entrypoint"},
		{TaskConfig{Entrypoint: []any{"/bin/\x00sh"}}, "command, args, entrypoint"},
		{TaskConfig{WorkDir: "work"}, "work_dir"},
		{TaskConfig{WorkDir: "/a\x00b"}, "work_dir"},
		{TaskConfig{WorkDir: "/proc/self/fd/8"}, "work_dir"},
		{TaskConfig{WorkDir: "/x/../proc"}, "work_dir"},
	} {
		f := &faults{}
		c.config.Image = "busybox"
		readAsk(c.config, HostConfig{}, f)
		if len(f.list) > 1 || (len(f.list) == 1) != (c.want != "") || c.want != "" && f.list[0].Field != c.want {
			t.Errorf("%+v: %v, want a fault of %q", c.config, f.list, c.want)
		}
	}
	for user, ok := range map[string]bool{
		"": true, "0:0": true, "agent:users": true, "2147483647": true, "www-data": true,
		"2147483648": false, "-1": false, "1:-1": false, "99999999999999999999": false, "a\nb": false, "a b": false, "a\x00": false,
	} {
		f := &faults{}
		if checkUser(user, f); (len(f.list) == 0) != ok {
			t.Errorf("user %q: %v", user, f.list)
		}
	}
}

func TestCoreCount(t *testing.T) {
	for list, want := range map[string]int{"": 0, "0": 1, "0,3,5": 3, "0-3": 4, "0-1,4": 3, "x": 0, "3-1": 0, "2,0-2": 3} {
		if got := coreCount(list); got != want {
			t.Errorf("%q: got %d, want %d", list, got, want)
		}
	}
}

// K31, K34: a task's name is the name of its folder, in which nobody but it and
// the driver may have anything.
func TestK31TaskNames(t *testing.T) {
	for name, want := range map[string]string{
		"web": "", "a b": "", "..web": "", "": "outside", ".": "outside", "..": "outside", "a/b": "outside", "alloc": "share",
	} {
		tc, c := taskOf(t, map[string]any{})
		tc.Name = name
		_, err := planTask(tc, c, closedHost, node)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
