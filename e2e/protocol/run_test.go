package protocol

import (
	"bytes"
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

// call is one call of the command run, in temporary folders of its own.
type call struct {
	*exec.Cmd
	temp   string
	stdout *output
}

// runJob starts the job that waits for ever, in a process group of its own.
func runJob(t *testing.T) *call {
	t.Helper()
	endpoint, image := testenv.Engine(t), testenv.Image(t)
	dir := t.TempDir()
	c := &call{temp: filepath.Join(dir, "tmp"), stdout: &output{}}
	if err := os.Mkdir(c.temp, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plugin.hcl": fmt.Sprintf("endpoint = %q\n", endpoint),
		"job.nomad.hcl": fmt.Sprintf(`job "wait" {
  type = "batch"
  group "main" {
    task "main" {
      driver = "wardyn"
      config {
        image   = %q
        command = "/bin/sh"
        args    = ["-c", "echo up; sleep 100000"]
      }
      template {
        data        = "secret"
        destination = "secrets/key"
      }
    }
  }
}
`, image),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Cmd = exec.Command(testenv.Driver(t), "run", "-plugin-config", filepath.Join(dir, "plugin.hcl"), filepath.Join(dir, "job.nomad.hcl"))
	c.Cmd.Env = append(os.Environ(), "TMPDIR="+c.temp)
	c.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cmd.Stdout, c.Cmd.Stderr = c.stdout, c.stdout
	c.Cmd.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil { // the test failed before it came to that
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			c.Wait()
		}
	})
	return c
}

// left is what there still is of the run: processes, mounts, temporary files.
func (c *call) left() []string {
	var out []string
	entries, _ := os.ReadDir(c.temp)
	for _, e := range entries {
		out = append(out, "file "+e.Name())
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.temp) {
			out = append(out, "mount "+line)
		}
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("TMPDIR="+c.temp)) {
			argv, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			out = append(out, fmt.Sprintf("process %s %q", filepath.Dir(file), argv))
		}
	}
	return out
}

func (c *call) nothingLeft(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("left: %q", c.left())
		}
	}()
	eventually(t, "nothing is left", func() bool { return len(c.left()) == 0 })
}

// TestRunKilled: a run that is killed has no other owner, so what it had is
// removed without it.
func TestRunKilled(t *testing.T) {
	c := runJob(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it printed:\n%s", c.stdout.String())
		}
	})
	eventually(t, "the task runs", func() bool { return c.stdout.has("main | up\n") })
	files, _ := filepath.Glob(filepath.Join(c.temp, "*", "data", "instance"))
	if len(files) != 1 {
		t.Fatalf("installations: %v, want one", files)
	}
	id, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	label := "wardyn.instance=" + strings.TrimSpace(string(id))
	if len(testenv.Leftovers(t, testenv.Engine(t), label)) == 0 {
		t.Fatalf("the label %s is nobody's", label)
	}
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	c.nothingLeft(t)
	for _, x := range testenv.Leftovers(t, testenv.Engine(t), label) {
		t.Errorf("left behind: %s", x)
	}
	r := &rig{dir: c.temp}
	for _, x := range r.leftOnNode(strings.TrimSpace(string(id))) {
		t.Errorf("left behind: %s", x)
	}
}

// TestRunTerminatedEarly: a signal to its whole group, wherever the run has got
// to, leaves no plugin behind.
func TestRunTerminatedEarly(t *testing.T) {
	for _, after := range []time.Duration{0, 10, 30, 60, 100, 200, 400} {
		c := runJob(t)
		time.Sleep(after * time.Millisecond)
		if err := syscall.Kill(-c.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		t.Logf("ended after %d ms", after)
		c.nothingLeft(t)
	}
}
