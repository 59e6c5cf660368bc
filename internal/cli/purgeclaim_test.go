package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// purgeRig is an installation on disk, with what a purge was asked.
type purgeRig struct {
	dir            *datadir.Dir
	env            Env
	stdout, stderr bytes.Buffer
	purged         bool
	options        string
}

func newPurgeRig(t *testing.T) *purgeRig {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.RemoveRunRoot() })
	r := &purgeRig{dir: dir, options: filepath.Join(t.TempDir(), "plugin.hcl")}
	if err := os.WriteFile(r.options, fmt.Appendf(nil, "data_dir = %q\n", dir.Path()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = Env{
		Stdout: &r.stdout, Stderr: &r.stderr, Executable: "/opt/nomad-driver-wardyn",
		LookupEnv: func(string) (string, bool) { return "", false },
		Purge: func(context.Context, map[string]any, bool) error {
			r.purged = true
			if err := dir.Claim().Take(context.Background(), 0); err == nil {
				t.Error("a plugin can begin amid the purge")
			}
			return nil
		},
		Purgeable: func(context.Context, map[string]any, bool) ([]string, error) { return []string{"remove x"}, nil },
	}
	return r
}

func (r *purgeRig) purge(ctx context.Context, how string) int {
	r.stdout.Reset()
	r.stderr.Reset()
	e := r.env
	e.Args = []string{"purge", "-plugin-config", r.options, how}
	return Main(ctx, e)
}

// K40: what a living plugin works with is not purged; the refusal says who has
// it and what to do, and the list says so too.
func TestK40PurgeHeedsTheClaim(t *testing.T) {
	r := newPurgeRig(t)
	claim := r.dir.Claim()
	if err := claim.Take(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if code := r.purge(t.Context(), "-yes"); code != exitFailed || r.purged {
		t.Errorf("exit %d, purged %v", code, r.purged)
	}
	for _, part := range []string{fmt.Sprint("process ", os.Getpid()), r.dir.Path(), "nothing was removed", "stop its jobs", "plugin block", "restart the agent"} {
		if !strings.Contains(r.stderr.String(), part) {
			t.Errorf("the refusal lacks %q: %s", part, r.stderr.String())
		}
	}
	if code := r.purge(t.Context(), "-dry-run"); code != exitOK || !strings.Contains(r.stdout.String(), "remove x\nin use by the plugin of an agent") {
		t.Errorf("exit %d: %s%s", code, r.stdout.String(), r.stderr.String())
	}
	claim.Give()
	if code := r.purge(t.Context(), "-yes"); code != exitOK || !r.purged || r.stderr.Len() > 0 {
		t.Errorf("once it is given up: exit %d, purged %v: %s", code, r.purged, r.stderr.String())
	}
	if code := r.purge(t.Context(), "-dry-run"); code != exitOK || r.stdout.String() != "remove x\n" {
		t.Errorf("exit %d: %s", code, r.stdout.String())
	}
}

// ending ends a process when something is said.
type ending struct {
	bytes.Buffer
	end func()
}

func (e *ending) Write(b []byte) (int, error) {
	if e.end != nil {
		e.end()
	}
	return e.Buffer.Write(b)
}

// K40: a plugin whose agent was killed is named and waited for before anything
// is removed; one that does not end is an error that names it.
func TestK40PurgeNamesAnOrphan(t *testing.T) {
	r := newPurgeRig(t)
	orphan := exec.Command("sleep", "1000")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { orphan.Process.Kill(); orphan.Wait() }
	t.Cleanup(end)
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", orphan.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	r.env.Executable = program
	pid := fmt.Sprint("process ", orphan.Process.Pid)
	claimed := func() {
		if err := os.WriteFile(r.dir.Path("plugin.lock"), fmt.Appendln(nil, orphan.Process.Pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	claimed()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := r.purge(ctx, "-yes"); code != exitFailed || r.purged || !strings.Contains(r.stderr.String(), pid+", a plugin whose agent is gone, does not end") {
		t.Errorf("exit %d, purged %v: %s", code, r.purged, r.stderr.String())
	}
	told := &ending{end: end} // whoever purges again waits for it as well
	r.env.Stderr = told
	if code := r.purge(t.Context(), "-yes"); code != exitOK || !r.purged || !strings.Contains(told.String(), pid+" is a plugin whose agent is gone") {
		t.Errorf("exit %d, purged %v: %s", code, r.purged, told.String())
	}
	claimed() // of a process that is no more
	told = &ending{}
	r.env.Stderr = told
	if code := r.purge(t.Context(), "-yes"); code != exitOK || told.Len() > 0 {
		t.Errorf("exit %d: %s", code, told.String())
	}
}
