package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// TestMain lets this test binary be the program that run starts: the real
// plugin over a runner in memory, and its keeper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"keeper", "holder", "caretaker"}, os.Args[1]) {
		os.Exit(Main(context.Background(), Env{Args: os.Args[1:], Stdout: io.Discard, Stderr: io.Discard, LookupEnv: os.LookupEnv}))
	}
	if plugin.LaunchedByNomad() {
		plugin.Serve(plugin.Options{Version: "1.2.3", Build: memoryBackend})
		return
	}
	os.Exit(m.Run())
}

func memoryBackend(_ context.Context, h plugin.HostConfig, log *slog.Logger) (*plugin.Backend, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	runs := filepath.Join(h.DataDir, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return nil, err
	}
	fake := runnertest.New(runnertest.Options{Programs: map[string]runnertest.Program{"printenv": printenv}})
	socket := filepath.Join(h.DataDir, "keeper.sock")
	return &plugin.Backend{
		Driver: driver.NewDocker(fake, driver.DockerOpts{}), Runner: fake, Ref: runnertest.Ref,
		Control: oneDecision{},
		Outputs: &keeper.Client{
			Socket: socket, Command: []string{self, "keeper", "-socket", socket, "-idle", "2s"},
			Holder: []string{self, "holder", "-socket", keeper.HolderSocket(socket), "-idle", "2s"}, Log: log,
		},
		RunDir:    func(run uuid.UUID) string { return runs },
		StageRoot: filepath.Join(h.DataDir, "stage"),
	}, nil
}

func printenv(_ context.Context, p *runnertest.Process) int {
	for _, name := range p.Argv[1:] {
		for _, kv := range p.Env {
			if strings.HasPrefix(kv, name+"=") {
				fmt.Fprintln(p.Stdout, kv)
			}
		}
	}
	return 0
}

// oneDecision is a control plane on which every run has made one request.
type oneDecision struct{}

func (oneDecision) Prepare(r control.Run) error {
	line := `{"kind":"decision","decision":"deny","code":"policy:default-deny","host":"blocked.example","port":80}` + "\n"
	return errors.Join(os.MkdirAll(r.FilesDir, 0o700), os.WriteFile(filepath.Join(r.FilesDir, "decisions.jsonl"), []byte(line), 0o600))
}
func (oneDecision) Resume(context.Context, control.Run) (egress.Endpoint, error) {
	return egress.Endpoint{}, nil
}
func (oneDecision) Summary(uuid.UUID) (control.Summary, bool) { return control.Summary{}, false }
func (oneDecision) Forget(uuid.UUID) error                    { return nil }
func (oneDecision) Approvals(uuid.UUID) []control.Approval    { return nil }
func (oneDecision) Decide(uuid.UUID, string, control.Ruling) (control.Approval, error) {
	return control.Approval{}, control.ErrNoApproval
}

// runPlugin runs a job through a plugin process and gives what people see. An
// interrupt is sent each time one of them shows the next of stopAt.
func runPlugin(t *testing.T, args []string, config string, stopAt ...string) (code int, stdout, stderr string) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	file := filepath.Join(t.TempDir(), "job.nomad.hcl")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	interrupts := make(chan os.Signal, len(stopAt))
	out, errs := &watched{wanted: stopAt, interrupts: interrupts}, &watched{wanted: stopAt, interrupts: interrupts}
	e := testEnv(nil, nil)
	e.Stdout, e.Stderr, e.Executable = out, errs, self
	e.Interrupts = func() <-chan os.Signal { return interrupts }
	for i, a := range args {
		if a == "JOB" {
			args[i] = file
		}
	}
	e.Args = append([]string{"run"}, args...)
	code = Main(t.Context(), e)
	if left := listed(t, temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return code, out.String(), errs.String()
}

const pluginJob = `
variable "script" {
  type = string
}
variable "level" {
  type    = string
  default = "CC1"
}
job "small" {
  type = "batch"
  meta {
    owner = "me"
  }
  group "g" {
    network {
      port "http" {
        to = 8080
      }
    }
    restart {
      attempts = 0
    }
    task "web" {
      driver = "wardyn"
      config {
        image       = "busybox:1"
        entrypoint  = []
        command     = "sh"
        args        = ["-c", var.script]
        confinement = var.level
      }
    }
  }
}
`

// TestRunThroughThePlugin: a plugin process, launched as Nomad does, runs the
// task; streams and exit code are the task's.
func TestRunThroughThePlugin(t *testing.T) {
	code, stdout, stderr := runPlugin(t, []string{"-decisions", "-var", "script=echo out ${NOMAD_TASK_NAME} ${NOMAD_META_owner}; echo err >&2; exit 3", "JOB"}, pluginJob)
	if code != 3 || stdout != "web | out web me\n             deny    blocked.example:80 (policy:default-deny)\n" ||
		!strings.Contains(stderr, "web | err\n") || !strings.Contains(stderr, "web * Terminated: exit code 3\n") {
		t.Errorf("exit %d\nstdout:\n%sstderr:\n%s", code, stdout, stderr)
	}
}

// TestExecThroughThePlugin: the command's exit code is the run's, and ends it.
func TestExecThroughThePlugin(t *testing.T) {
	code, stdout, stderr := runPlugin(t, []string{"-exec", "web", "-var", "script=sleep 600", "JOB", "--", "sh", "-c", "echo inside; echo odd >&2; exit 5"}, pluginJob)
	if code != 5 || stdout != "web exec | inside\n" || !strings.Contains(stderr, "web exec | odd\n") ||
		!strings.Contains(stderr, "web exec * Terminated: exit code 5\n") {
		t.Errorf("exit %d\nstdout:\n%sstderr:\n%s", code, stdout, stderr)
	}
}

func TestInterruptThroughThePlugin(t *testing.T) {
	code, stdout, stderr := runPlugin(t, []string{"-var", "script=echo up; sleep 600", "JOB"}, pluginJob, "web | up\n")
	if code != 143 && code != 137 || stdout != "web | up\n" || !strings.Contains(stderr, "* Stopping (interrupt)") {
		t.Errorf("exit %d\nstdout:\n%sstderr:\n%s", code, stdout, stderr)
	}
}

// TestSignalThroughThePlugin: a signal reaches a task that runs, and nothing is
// sent to one that never did.
func TestSignalThroughThePlugin(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	sleeper := strings.NewReplacer(`"sh"`, `"sleep"`, `"-c", var.script`, `"600"`).Replace(pluginJob)
	file := filepath.Join(t.TempDir(), "job.nomad.hcl")
	self, err := os.Executable()
	if err := errors.Join(err, os.WriteFile(file, []byte(sleeper), 0o600)); err != nil {
		t.Fatal(err)
	}
	errs := &watched{wanted: []string{"web * Started\n"}, interrupts: make(chan os.Signal, 1)}
	e := testEnv(&bytes.Buffer{}, nil)
	e.Stderr, e.Executable = errs, self
	e.Interrupts = func() <-chan os.Signal { return nil }
	o, _, ok := parseRun(e, runCommand, []string{"-var", "script=", file})
	if !ok {
		t.Fatal(errs.String())
	}
	launch := func(ctx context.Context, s launchSpec) (backend, error) {
		back, err := launchPlugin(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := back.signal(ctx, "web", "SIGTERM"); err == nil || err.Error() != "task web does not run" {
			t.Errorf("before its start: %v", err)
		}
		go func() {
			<-errs.interrupts
			if err := back.signal(ctx, "web", "SIGNONE"); err == nil || strings.Contains(err.Error(), "rpc error") {
				t.Errorf("no such signal: %v", err)
			}
			if err := back.signal(ctx, "web", "SIGTERM"); err != nil {
				t.Error(err)
			}
		}()
		return back, nil
	}
	if code, err := runJob(t.Context(), e, o, launch); code != 143 || err != nil || strings.Contains(errs.String(), "Killing") {
		t.Errorf("exit %d, %v\n%s", code, err, errs)
	}
}

// TestI7MistakesThroughThePlugin: what a plugin refuses reaches the terminal
// whole, and is not tried again.
func TestI7MistakesThroughThePlugin(t *testing.T) {
	code, stdout, stderr := runPlugin(t, []string{"-var", "level=CC9", "-var", "script=true", "JOB"}, pluginJob)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "CC9") || strings.Contains(stderr, "rpc error") || strings.Contains(stderr, "Restarting") {
		t.Errorf("exit %d\nstdout:\n%sstderr:\n%s", code, stdout, stderr)
	}
}

// TestPluginOptionsAreRefusedWhole: a bad option ends the run before it begins.
func TestPluginOptionsAreRefusedWhole(t *testing.T) {
	for option, want := range map[string]string{"slots = -1": "slots", "no_such_option = 1": "no_such_option"} {
		config := filepath.Join(t.TempDir(), "plugin.hcl")
		if err := os.WriteFile(config, []byte(option+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := runPlugin(t, []string{"-plugin-config", config, "-var", "script=true", "JOB"}, pluginJob)
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "rpc error") {
			t.Errorf("%s: exit %d\nstdout:\n%sstderr:\n%s", option, code, stdout, stderr)
		}
	}
}

// TestEnvironmentThroughThePlugin: what a client gives a task, templates
// included, arrives in it.
func TestEnvironmentThroughThePlugin(t *testing.T) {
	job := `
job "env" {
  type      = "batch"
  namespace = "agents"
  group "g" {
    restart {
      attempts = 0
    }
    task "show" {
      driver = "wardyn"
      env {
        PLAIN  = "1"
        NESTED = "${NOMAD_TASK_DIR}/x on ${attr.kernel.name}"
      }
      template {
        destination = "secrets/file.env"
        env         = true
        data        = <<EOT
FROM_TEMPLATE="{{ env "NOMAD_NAMESPACE" }} {{ env "PLAIN" }} {{ env "attr.kernel.name" }}"
EOT
      }
      config {
        image      = "busybox:1"
        entrypoint = []
        command    = "printenv"
        args       = ["PLAIN", "NESTED", "FROM_TEMPLATE", "NOMAD_CPU_LIMIT"]
      }
      resources {
        cpu = 123
      }
    }
  }
}
`
	code, stdout, stderr := runPlugin(t, []string{"JOB"}, job)
	want := "show | PLAIN=1\nshow | NESTED=/local/x on linux\nshow | FROM_TEMPLATE=agents 1 linux\nshow | NOMAD_CPU_LIMIT=123\n"
	if code != 0 || stdout != want {
		t.Errorf("exit %d\nstdout:\n%sstderr:\n%s", code, stdout, stderr)
	}
}
