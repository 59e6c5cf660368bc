package nomad

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

func TestNomad(t *testing.T) {
	for _, bin := range testenv.NomadBinaries(t) {
		t.Run(testenv.NomadVersion(t, bin), func(t *testing.T) {
			c := start(t, bin)
			for _, rt := range testenv.Runtimes(t) {
				class := map[string]string{"runc": "CC1", "runsc": "CC2"}[rt]
				t.Run("hello/"+rt, func(t *testing.T) { c.hello(t, class) })
			}
			t.Run("mistakes", c.mistakes)
			t.Run("lines", c.lines)
			t.Run("ports", c.ports)
			t.Run("shapes", c.shapes)
			t.Run("semantics", c.semantics)
			t.Run("credentials", c.credentials)
			t.Run("exec", c.exec)
			t.Run("signals", c.signals)
			t.Run("parked", c.parked)
			t.Run("actions", c.actions)
			t.Run("cores", c.cores)
			t.Run("plugin killed", func(t *testing.T) { c.killedUnder(t, c.pluginPID) })
			t.Run("plugin and keeper killed", func(t *testing.T) { c.killedUnder(t, c.pluginPID, c.keeperPID) })
			t.Run("agent killed", c.agentKilled)
			t.Run("all killed", c.allKilled)
			t.Run("agent restarted", c.agentRestarted)
		})
	}
}

func (c *cluster) hello(t *testing.T, class string) {
	c.run(t, "hello.nomad.hcl", "class="+class)
	a := c.until(t, "hello", "complete", "failed")
	out := c.logs(t, a)
	wants(t, "the log", out, "kernel: Linux", "allowed: hello from greeting.txt",
		"denied: HTTP/1.1 403", "blocked.example", "policy:default-deny", "egress")
	wants(t, "the events", events(a), "blocked.example")
	wants(t, "decisions.jsonl", c.CLI(t, "alloc", "fs", a.ID, "hello/wardyn/decisions.jsonl"),
		`"policy:allowed"`, `"policy:default-deny"`)
	if a.ClientStatus != "complete" {
		t.Errorf("status %s:\n%s", a.ClientStatus, events(a))
	}
	c.CLI(t, "job", "stop", "-purge", "hello")
}

// Five mistakes: one refusal that names all of them, and nothing made.
func (c *cluster) mistakes(t *testing.T) {
	c.CLI(t, "job", "run", "-detach", filepath.Join(testenv.Root(t), "jobs", "mistakes.nomad.hcl"))
	a := c.until(t, "mistakes", "failed")
	for _, field := range []string{"CC9", "network_mode", "privileged", "work_dir", "https://example.com/"} {
		wants(t, "the events", events(a), field)
	}
	c.CLI(t, "job", "stop", "-purge", "mistakes")
}

// Output under load: every line of both streams is in Nomad's log once, in order.
func (c *cluster) lines(t *testing.T) {
	const lines = 200_000
	c.run(t, "lines.nomad.hcl", fmt.Sprintf("lines=%d", lines))
	a := c.until(t, "lines", "failed", "complete")
	wants(t, "the events", events(a), "Exit Code: 5")
	for name, flags := range map[string][]string{"out": nil, "err": {"-stderr"}} {
		n := 0
		for line := range strings.Lines(c.logs(t, a, flags...)) {
			if n++; line != fmt.Sprintf("%s %d\n", name, n) {
				t.Fatalf("line %d of %s is %q", n, name, line)
			}
		}
		if n != lines {
			t.Errorf("%d lines of %s, want %d", n, name, lines)
		}
	}
	c.CLI(t, "job", "stop", "-purge", "lines")
}

func (c *cluster) exec(t *testing.T) {
	c.run(t, "workspace.nomad.hcl")
	a := c.until(t, "workspace", "running")

	t.Run("exit code", func(t *testing.T) {
		err := c.Command(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "sh", "-c", "exit 3").Run()
		if code := exitCode(err); code != 3 {
			t.Errorf("exit code %d (%v), want 3", code, err)
		}
	})
	t.Run("piped stdin ends", func(t *testing.T) {
		cmd := c.Command(t, "alloc", "exec", "-i", "-t=false", a.ID, "sh", "-c", "wc -c; echo done")
		cmd.Stdin = strings.NewReader(strings.Repeat("x", 300_000))
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Join(strings.Fields(string(out)), " ") != "300000 done" {
			t.Errorf("%v: %q", err, out)
		}
	})
	t.Run("streams stay apart", func(t *testing.T) {
		cmd := c.Command(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "sh", "-c", "echo out; echo err >&2")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stdout.String() != "out\n" || stderr.String() != "err\n" {
			t.Errorf("%v: %q, %q", err, stdout.String(), stderr.String())
		}
	})
	t.Run("terminal", func(t *testing.T) {
		cmd := c.Command(t, "alloc", "exec", "-i", "-t", a.ID, "sh", "-c", "stty size; tty; read x; echo got $x; exit 4")
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 101})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b bytes.Buffer
		done := make(chan struct{})
		go func() { b.ReadFrom(f); close(done) }()
		time.Sleep(2 * time.Second)
		f.Write([]byte("typed\n"))
		err = cmd.Wait()
		<-done
		wants(t, "the terminal", b.String(), "31 101", "/dev/", "got typed")
		if code := exitCode(err); code != 4 {
			t.Errorf("exit code %d (%v), want 4", code, err)
		}
	})
	t.Run("control verb", func(t *testing.T) {
		wants(t, "wardyn status", c.CLI(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "wardyn", "status"), "running", "CC1")
		wants(t, "wardyn explain", c.CLI(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "wardyn", "explain"),
			"author: confinement", "resources.memory", "/alloc", "NOMAD_ALLOC_ID")
	})
	t.Run("refusals explain themselves", func(t *testing.T) {
		refused := func(want, input, command string) {
			t.Helper()
			out, err := c.Command(t, "alloc", "exec", "-i="+input, "-t=false", a.ID, command).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v: %s", command, err, out)
			}
		}
		refused("no-such-program", "false", "no-such-program")
		c.CLI(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "wardyn", "suspend")
		refused("resume it first", "false", "true")
		refused("resume it first", "true", "true")
	})
	c.CLI(t, "job", "stop", "-purge", "workspace")
}

func (c *cluster) signals(t *testing.T) {
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "ready")
	c.CLI(t, "alloc", "signal", "-s", "SIGUSR1", a.ID)
	c.untilLog(t, a, "got USR1")
	c.CLI(t, "alloc", "stop", "-detach", a.ID)
	c.Eventually(t, 60*time.Second, "the stopped allocation said goodbye", func() bool {
		out, _ := c.Command(t, "alloc", "logs", a.ID).Output()
		return strings.Contains(string(out), "got TERM")
	})
	c.CLI(t, "job", "stop", "-purge", "signals")
}

// The agent dies and comes back: the same container is followed.
func (c *cluster) agentKilled(t *testing.T)    { c.agentAway(t, c.Kill) }
func (c *cluster) agentRestarted(t *testing.T) { c.agentAway(t, c.Stop) }

func (c *cluster) agentAway(t *testing.T, away func(testing.TB)) {
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "ready")
	before := c.container(t)
	away(t)
	time.Sleep(3 * time.Second)
	c.Start(t)
	c.Eventually(t, 60*time.Second, "the allocation runs again", func() bool { return c.alloc(t, "signals").ClientStatus == "running" })
	if now := c.alloc(t, "signals"); now.ID != a.ID {
		t.Fatalf("allocation %s was replaced by %s", a.ID, now.ID)
	}
	tick := lastTick(c.logs(t, a))
	c.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(c.logs(t, a)) > tick+10 })
	if after := c.container(t); after != before {
		t.Errorf("container %s became %s", before, after)
	}
	consecutive(t, c.logs(t, a))
	c.stillObeys(t, a)
}

// stillObeys checks that signals and stop reach the task, and ends it.
func (c *cluster) stillObeys(t *testing.T, a alloc) {
	t.Helper()
	c.CLI(t, "alloc", "signal", "-s", "SIGUSR1", a.ID)
	c.untilLog(t, a, "got USR1")
	c.CLI(t, "job", "stop", "-purge", "signals")
	c.Eventually(t, 60*time.Second, "the container is gone", func() bool { return c.container(t) == "" })
}

func (c *cluster) untilLog(t *testing.T, a alloc, text string) {
	t.Helper()
	c.Eventually(t, 60*time.Second, "the log says "+text, func() bool {
		out, _ := c.Command(t, "alloc", "logs", a.ID).Output()
		return strings.Contains(string(out), text)
	})
}

// pluginPID is the pid of the plugin process that this agent runs.
func (c *cluster) pluginPID(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", "^"+filepath.Join(c.Dir, "plugins", "nomad-driver-wardyn")+"$").Output()
	if err != nil {
		t.Fatalf("no plugin process: %v", err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(out))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// instance is the id of this installation.
func (c *cluster) instance(t *testing.T) string {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(c.data, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

// container is the id of the one agent container of this installation; "" when
// there is none, several lines when there are more.
func (c *cluster) container(t *testing.T) string {
	t.Helper()
	return strings.Join(c.containers(t, "agent"), "\n")
}

// containers are the ids of what runs of this installation: "agent" or "proxy".
func (c *cluster) containers(t *testing.T, component string) []string {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-q", "--no-trunc", "--filter", "label=wardyn.component="+component,
		"--filter", "label=wardyn.instance="+c.instance(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// inspect is what the engine says of the one agent container.
func (c *cluster) inspect(t *testing.T, format string) string {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "--format", format, c.container(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func lastTick(log string) int {
	n := 0
	for line := range strings.Lines(log) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "tick "); ok {
			n, _ = strconv.Atoi(s)
		}
	}
	return n
}

// consecutive checks that no tick is missing or out of order.
func consecutive(t *testing.T, log string) {
	t.Helper()
	want := 1
	for line := range strings.Lines(log) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "tick "); ok {
			if got, _ := strconv.Atoi(s); got != want {
				t.Fatalf("tick %d follows tick %d", got, want-1)
			}
			want++
		}
	}
}

func exitCode(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	if err == nil {
		return 0
	}
	return -1
}
