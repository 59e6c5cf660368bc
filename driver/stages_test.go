package driver

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func TestD28StagesAndTheirOrder(t *testing.T) {
	got := sandboxSpec(Spec{
		SessionID: "s", Image: "i", Setup: "a", SetupTimeoutSec: 900, Init: "b", InitTimeoutSec: -1,
		GitAuthorName: "N", GitAuthorEmail: "n@example.com",
		Repos: []RepoSpec{
			{Owner: "acme", Name: "web", BaseBranch: "main", SessionBranch: "wardyn/s/x"},
			{Owner: "https://git.example.com/team/", Name: "lib.git", Dir: "deps/lib"},
		},
	}, DockerOpts{Label: DefaultLabel}).Task
	want := []runner.Stage{
		{Name: "setup", Script: []byte("a"), Timeout: 15 * time.Minute, Code: runner.SetupFailed},
		{Name: "clone", Timeout: cloneTimeout, Code: runner.CloneFailed, Repos: []runner.Repo{
			{URL: "http://wardyn-proxy:3128/wardyn/gh/acme/web", Branch: "main", NewBranch: "wardyn/s/x", Dir: "/workspace/web", AuthorName: "N", AuthorEmail: "n@example.com"},
			{URL: "https://git.example.com/team/lib.git", Dir: "/workspace/deps/lib", AuthorName: "N", AuthorEmail: "n@example.com"},
		}},
		{Name: "init", Script: []byte("b"), Timeout: -time.Second, Code: runner.InitFailed},
	}
	if !reflect.DeepEqual(got.Stages, want) {
		t.Errorf("stages\n%+v\nwant\n%+v", got.Stages, want)
	}
	if s := sandboxSpec(Spec{Image: "i"}, DockerOpts{}).Task.Stages; len(s) != 0 {
		t.Errorf("nothing to run: %+v", s)
	}
}

// K7: what is too long for a variable is in the stage's file alone.
func TestK7LongScriptsAreNoVariables(t *testing.T) {
	for n, want := range map[int]bool{maxChannel/4*3 - 3: true, maxChannel: false, MaxSetupBytes: false} {
		env := environment(Spec{Setup: strings.Repeat("x", n), Init: strings.Repeat("y", n)})
		_, text := env["RAINIER_SETUP_B64"]
		_, bound := env["RAINIER_SETUP_TIMEOUT"]
		if text != want || bound != want {
			t.Errorf("%d bytes: set %v and %v, want %v", n, text, bound, want)
		}
	}
}

func TestReposAreChecked(t *testing.T) {
	for _, c := range []struct {
		repos []RepoSpec
		want  string // "" is accepted
	}{
		{[]RepoSpec{{Owner: "a", Name: "b"}, {Owner: "a", Name: "c"}}, ""},
		{[]RepoSpec{{Owner: "a", Name: "b", Dir: "/workspace/x"}}, ""},
		{[]RepoSpec{{Owner: "", Name: "b"}}, "owner"},
		{[]RepoSpec{{Owner: "a", Name: "b c"}}, "owner"},
		{[]RepoSpec{{Owner: "a", Name: "b/c"}}, "owner"},
		{[]RepoSpec{{Owner: "a", Name: "b", BaseBranch: "--upload-pack=x"}}, "branch"},
		{[]RepoSpec{{Owner: "a", Name: "b", SessionBranch: "-x"}}, "branch"},
		{[]RepoSpec{{Owner: "a", Name: "b", Dir: "/etc"}}, "dir"},
		{[]RepoSpec{{Owner: "a", Name: "b", Dir: ".."}}, "dir"},
		{[]RepoSpec{{Owner: "a", Name: "b", Dir: "."}}, "dir"},
		{[]RepoSpec{{Owner: "a", Name: "b"}, {Owner: "x", Name: "b"}}, "another"},
	} {
		err := check(Spec{Image: "i", Repos: c.repos}, "")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.repos, err, c.want)
		}
	}
}

func TestD12HomeIsMountedOnceAfterTheWorkspace(t *testing.T) {
	got := sandboxSpec(Spec{SessionID: "s", Image: "i", Home: &HomeMount{"v", "/home/agent"}}, DockerOpts{}).Task
	want := []runner.TaskMount{{Volume: "rainier-ws-s", Target: "/workspace"}, {Volume: "v", Target: "/home/agent"}}
	if !reflect.DeepEqual(got.Mounts, want) {
		t.Errorf("mounts %+v", got.Mounts)
	}
}

func TestK26NamedVolumes(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []string{
		NamedWorkspace("a", "b"), NamedWorkspace("a/b", "c"), NamedWorkspace("a", "b/c"), NamedWorkspace("", "a/b"),
		NamedHome("a", "b"), WorkspaceVolume("a"), WorkspaceVolume("a_2fb__"), NamedWorkspace("a.b", "c"), NamedWorkspace("a", "b.c"),
	} {
		if seen[v] {
			t.Errorf("two share %q", v)
		}
		seen[v] = true
	}
}
