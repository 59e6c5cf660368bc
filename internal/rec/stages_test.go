package rec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// stagesFile writes a list of stages and their scripts.
func stagesFile(t *testing.T, scripts map[string]string, list ...stage) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "stages.json")
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestK7StagesRunInOrderBeforeTheCommand(t *testing.T) {
	for _, c := range []struct {
		name    string
		scripts map[string]string
		stages  []stage
		code    int
		out     string // what standard output holds
		err     string // part of standard error, "" for none of it
	}{
		{"both, then the command", map[string]string{"a": "echo one; printf two", "b": "#!/bin/sh\necho $0 >/dev/null; echo three"},
			[]stage{{Name: "setup", File: "a", Code: 120}, {Name: "init", File: "b", Code: 122}}, 5, "[setup] one\n[setup] two\n[init] three\nagent\n", ""},
		{"a failure has the stage's code", map[string]string{"a": "echo said; exit 3"},
			[]stage{{Name: "init", File: "a", Code: 122}}, 122, "[init] said\n", "[init] failed: exit code 3\n"},
		{"one in time is not", map[string]string{"a": "echo on"},
			[]stage{{Name: "init", File: "a", Code: 122, TimeoutMillis: 60_000}}, 5, "[init] on\nagent\n", ""},
		{"what a stage leaves running holds nothing up", map[string]string{"a": "sleep 600 & echo up"},
			[]stage{{Name: "init", File: "a", Code: 122}}, 5, "[init] up\nagent\n", ""},
		{"a script without its interpreter", map[string]string{"a": "#!/no/such/thing\n"},
			[]stage{{Name: "init", File: "a", Code: 122}}, 122, "", "[init] failed: exec "},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := asPID1(t, "init", "-stages", stagesFile(t, c.scripts, c.stages...), "--", "sh", "-c", "echo agent; exit 5")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if got := code(t, cmd.Run()); got != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.err) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d, %q, %q", got, out.String(), errs.String(), c.code, c.out, c.err)
			}
		})
	}
}

// What a stage leaves running may print without end: the command is started, and
// has what the stage printed itself before it.
func TestK7NoiseHoldsNothingUp(t *testing.T) {
	cmd := asPID1(t, "init", "-stages", stagesFile(t, map[string]string{"a": "yes noise & yes noise & yes noise & echo up; yes noise >&2 & yes noise >&2 & yes noise >&2 &"},
		stage{Name: "init", File: "a", Code: 122}), "--", "sh", "-c", "echo agent; exit 5")
	var out, errs lineSet
	cmd.Stdout, cmd.Stderr = &out, &errs
	if got := code(t, cmd.Run()); got != 5 || !out.seen["[init] up"] || !out.seen["agent"] {
		t.Errorf("exit %d, lines %v", got, out.seen)
	}
}

// lineSet keeps which lines there were, of output without end.
type lineSet struct {
	rest string
	seen map[string]bool
}

func (l *lineSet) Write(b []byte) (int, error) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	lines := strings.Split(l.rest+string(b), "\n")
	l.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		l.seen[line] = true
	}
	return len(b), nil
}

// A stage that takes too long is ended, and what it said until then is there.
func TestK7LateStage(t *testing.T) {
	for limit := 300 * time.Millisecond; ; limit *= 2 {
		cmd := asPID1(t, "init", "-stages", stagesFile(t, map[string]string{"a": "echo on; sleep 600"},
			stage{Name: "init", File: "a", Code: 122, TimeoutMillis: limit.Milliseconds()}), "--", "echo", "agent")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		got := code(t, cmd.Run())
		if want := fmt.Sprintf("[init] failed: it took longer than %v\n", limit); got != 122 || !strings.Contains(errs.String(), want) {
			t.Fatalf("exit %d, stderr %q; want 122, %q", got, errs.String(), want)
		}
		if out.String() == "[init] on\n" {
			return
		}
		// A busy machine may not have come as far as that; but nothing else is said.
		if out.Len() > 0 || limit > testenv.Patience/4 {
			t.Fatalf("in %v it said %q", limit, out.String())
		}
	}
}

func TestK7OnlyStages(t *testing.T) {
	for script, want := range map[string]int{"true": 0, "false": 120} {
		cmd := wardynRec(t, "init", "-stages", stagesFile(t, map[string]string{"a": script}, stage{Name: "setup", File: "a", Code: 120}))
		if got := code(t, cmd.Run()); got != want {
			t.Errorf("%s: exit %d, want %d", script, got, want)
		}
	}
	if got := code(t, wardynRec(t, "init", "-stages", "/no/such/file", "--", "true").Run()); got != exitStages {
		t.Errorf("no list: exit %d", got)
	}
}

// A stop during a stage ends it, and the command is never started.
func TestK7StopDuringAStage(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := wardynRec(t, "init", "-stages", stagesFile(t, map[string]string{"a": "touch " + ready + "; sleep 600"},
		stage{Name: "init", File: "a", Code: 122}), "--", "echo", "agent")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stage runs", func() bool { _, err := os.Stat(ready); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != 143 || strings.Contains(out.String(), "agent") || !strings.Contains(errs.String(), "[init] stopped by signal 15") {
		t.Errorf("exit %d, %q, %q", got, out.String(), errs.String())
	}
}

func TestCloneStage(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	origin, work := t.TempDir(), t.TempDir()
	for _, argv := range [][]string{
		{"init", "--quiet", "-b", "main"}, {"config", "user.name", "o"}, {"config", "user.email", "o@example.com"},
		{"commit", "--quiet", "--allow-empty", "-m", "one"}, {"commit", "--quiet", "--allow-empty", "-m", "two"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", origin}, argv...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", argv, err, out)
		}
	}
	dir := filepath.Join(work, "team", "web")
	repo := clone{URL: "file://" + origin, Branch: "main", NewBranch: "wardyn/s/fix", Dir: dir, AuthorName: "A Name", AuthorEmail: "a@example.com"}
	run := func(c clone) (int, string) {
		cmd := asPID1(t, "init", "-stages", stagesFile(t, nil, stage{Name: "clone", Repos: []clone{c}, Code: 121}))
		out, err := cmd.CombinedOutput()
		return code(t, err), string(out)
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if n, out := run(repo); n != 0 {
		t.Fatalf("exit %d\n%s", n, out)
	}
	if b, n, who := git("rev-parse", "--abbrev-ref", "HEAD"), git("rev-list", "--count", "HEAD"), git("config", "user.email"); b != "wardyn/s/fix" || n != "1" || who != "a@example.com" {
		t.Errorf("branch %q, %s commits, by %q", b, n, who)
	}
	// A clone that is there is somebody's work.
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, out := run(repo); n != 0 || !strings.Contains(out, "stays as it is") {
		t.Errorf("again: exit %d\n%s", n, out)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	// One that fails leaves nothing that passes for a clone, and takes no files.
	repo.URL, repo.Dir = "file://"+origin+"-none", filepath.Join(work, "other")
	if n, out := run(repo); n != 121 || !strings.Contains(out, "[clone] failed: exit code") {
		t.Errorf("no such repository: exit %d\n%s", n, out)
	}
	repo.Dir = filepath.Dir(dir)
	if n, out := run(repo); n != 121 || !strings.Contains(out, "is no clone") {
		t.Errorf("a folder with files: exit %d\n%s", n, out)
	}
	if left, _ := os.ReadDir(work); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
