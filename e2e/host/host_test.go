package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// pool is this package's own egress pool.
const pool = "10.214.248.0/22"

// result is what one run of the binary gave.
type result struct {
	stdout, stderr string
	code           int
}

// pluginConfig is an operator's configuration with two private upstreams at
// the gateway of this package's pool.
func pluginConfig(t *testing.T) string {
	t.Helper()
	up := testenv.Upstream(t, pool)
	p := filepath.Join(t.TempDir(), "plugin.hcl")
	text := fmt.Sprintf(`
endpoint           = %q
egress_subnet_pool = %q

private_hosts {
  "artifacts.example.internal" = [%[3]q]
  "model.example.internal"     = [%[3]q]
  "packages.example.internal"  = [%[3]q]
}
`, testenv.Engine(t), pool, up.Addr().String())
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs "nomad-driver-wardyn run args..." and leaves nothing on the engine.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return installation(t, "run", args...)
}

// installation runs a command that has an installation of its own for a while.
func installation(t *testing.T, name string, args ...string) result {
	t.Helper()
	return command(t, append([]string{name, "-plugin-config", pluginConfig(t)}, args...)...)
}

// command is installation with all of the command line.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return piped(t, nil, args...)
}

// piped is command with something to read.
func piped(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Driver(t), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	leavesNothing(t, cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%v\n%s", err, r.stderr)
	}
	return r
}

// leavesNothing checks, when the test has ended, that the command took away all
// of the installation it made for itself: on disk, and on the engine by the
// instance that it read off the disk meanwhile.
func leavesNothing(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	tmp, endpoint := t.TempDir(), testenv.Engine(t)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	ctx, stop := context.WithCancel(t.Context())
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		for ctx.Err() == nil {
			found, _ := filepath.Glob(filepath.Join(tmp, "*", "data", "instance"))
			for _, f := range found {
				if b, err := os.ReadFile(f); err == nil && len(bytes.TrimSpace(b)) > 0 {
					seen <- string(bytes.TrimSpace(b))
					return
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		if instance, ok := <-seen; ok {
			for _, x := range testenv.Leftovers(t, endpoint, "wardyn.instance="+instance) {
				t.Errorf("left behind: %s", x)
			}
		} else if !t.Failed() {
			t.Error("the run never had an installation of its own")
		}
		left, _ := os.ReadDir(tmp)
		for _, e := range left {
			t.Errorf("left behind in TMPDIR: %s", e.Name())
		}
	})
}

func job(t *testing.T, elem ...string) string {
	return filepath.Join(append([]string{testenv.Root(t)}, elem...)...)
}

func (r result) wants(t *testing.T, where, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q\nstdout:\n%s\nstderr:\n%s", where, p, r.stdout, r.stderr)
		}
	}
}

func TestHello(t *testing.T) {
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			r := run(t, "-decisions", "-var", "image="+image, "-var", "class="+testenv.Class(rt), job(t, "jobs", "hello.nomad.hcl"))
			r.wants(t, "stdout", r.stdout, "kernel: Linux", "allowed: hello from greeting.txt",
				"denied: HTTP/1.1 403", `"code":"policy:default-deny"`, "blocked.example")
			if gvisor := strings.Contains(r.stdout, "kernel: Linux 4.4.0"); gvisor != (rt == "runsc") {
				t.Errorf("gVisor's kernel line: %v, under %s:\n%s", gvisor, rt, r.stdout)
			}
			if r.code != 0 {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
		})
	}
}

func TestExecCodePassesThrough(t *testing.T) {
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			r := run(t, "-var", "image="+image, "-var", "class="+testenv.Class(rt), "-exec", "shell",
				job(t, "jobs", "workspace.nomad.hcl"), "--", "sh", "-c", "echo inside; exit 3")
			r.wants(t, "stdout", r.stdout, "inside")
			if r.code != 3 {
				t.Errorf("exit code %d, want 3\n%s", r.code, r.stderr)
			}
		})
	}
}

// K1: a program of 64 processes, 20 times in a row, right each time.
func TestK1SixtyFourProcessesTwentyTimes(t *testing.T) {
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			r := run(t, "-var", "image="+image, "-var", "class="+testenv.Class(rt), "-exec", "shell",
				job(t, "jobs", "workspace.nomad.hcl"), "--", "sh", "-c",
				"for i in $(seq 20); do /.wardyn/wardyn-rec probe >/dev/null || exit 1; echo right $i; done")
			if r.code != 0 || !strings.Contains(r.stdout, "right 20") {
				t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

// Every line of a loud task arrives once and in order, on both streams.
func TestK8TwoHundredThousandLines(t *testing.T) {
	const lines = 200_000
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			r := run(t, "-var", "image="+image, "-var", "class="+testenv.Class(rt), job(t, "jobs", "lines.nomad.hcl"))
			numbered(t, "stdout", r.stdout, "out ", lines)
			numbered(t, "stderr", r.stderr, "err ", lines)
			if r.code != 5 {
				t.Errorf("exit code %d, want 5", r.code)
			}
		})
	}
}

// numbered checks that text holds prefix 1..n in order, among other lines.
func numbered(t *testing.T, where, text, prefix string, n int) {
	t.Helper()
	want := 1
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		_, line, ok := strings.Cut(s.Text(), " | ")
		if !ok || !strings.HasPrefix(line, prefix) {
			continue
		}
		if line != fmt.Sprint(prefix, want) {
			t.Fatalf("%s: got %q where %q%d was due", where, line, prefix, want)
		}
		want++
	}
	if want != n+1 {
		t.Errorf("%s: %d lines, want %d", where, want-1, n)
	}
}

// Invariant 7: one refusal names all five mistakes, and nothing was made.
func TestFiveMistakesInOneMessage(t *testing.T) {
	r := run(t, job(t, "jobs", "mistakes.nomad.hcl"))
	if r.code == 0 {
		t.Error("exit code 0")
	}
	r.wants(t, "stderr", r.stderr, "confinement", "CC9", "network_mode", "privileged", "work_dir", "not/absolute", "https://example.com/")
}

func TestInterruptStopsWithTheTasksCode(t *testing.T) {
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), testenv.Driver(t), "run", "-plugin-config", pluginConfig(t),
				"-var", "image="+image, "-var", "class="+testenv.Class(rt), job(t, "jobs", "signals.nomad.hcl"))
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			leavesNothing(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var seen strings.Builder
			s := bufio.NewScanner(stdout)
			for s.Scan() {
				fmt.Fprintln(&seen, s.Text())
				if strings.HasSuffix(s.Text(), "tick 2") {
					showsOneRun(t, cmd, testenv.Class(rt))
					cmd.Process.Signal(syscall.SIGINT)
				}
			}
			err = cmd.Wait()
			if cmd.ProcessState.ExitCode() != 7 || !strings.Contains(seen.String(), "got TERM") {
				t.Errorf("%v, want exit code 7\n%s\n%s", err, seen.String(), stderr.String())
			}
		})
	}
}

func TestExampleCodingAgent(t *testing.T) {
	image := testenv.Image(t)
	r := run(t, "-decisions", "-var", "image="+image, job(t, "examples", "coding-agent", "job.nomad.hcl"))
	r.wants(t, "stdout", r.stdout, "the model says: hello from v1/messages", "got hello from left-pad-1.0.tgz",
		"telemetry refused", "agent: done")
	if r.code != 0 {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

func TestExampleWorkspace(t *testing.T) {
	r := run(t, "-var", "image="+testenv.Image(t), "-exec", "shell",
		job(t, "examples", "workspace", "job.nomad.hcl"), "--", "hostname")
	r.wants(t, "stdout", r.stdout, "workspace")
	if r.code != 0 {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// The quick start reaches public hosts, which tests do not: here it only has
// to run and be refused what this machine cannot reach.
func TestExampleQuickstart(t *testing.T) {
	r := run(t, "-var", "image="+testenv.Image(t), job(t, "examples", "quickstart", "job.nomad.hcl"))
	r.wants(t, "stdout", r.stdout, "refused, as it should be")
}

func TestExampleSetup(t *testing.T) {
	r := run(t, "-var", "image="+testenv.Image(t), job(t, "examples", "setup", "job.nomad.hcl"))
	r.wants(t, "stdout", r.stdout, "[setup] installed", "[init] in /workspace", "hello from the tool", "start 1")
	if r.code != 0 {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
