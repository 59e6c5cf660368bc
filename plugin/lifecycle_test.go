package plugin

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

func refOf(tc host.TaskConfig) string { return runnertest.Ref(RunID(TaskID(tc.ID))) }

func TestLifecycle(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("sh", "-c", "echo out; echo err >&2; exit 3"))
	if h.Version < 1 || h.State != host.TaskRunning || len(h.DriverState) == 0 {
		t.Errorf("handle: %+v", h)
	}
	if r := b.wait(tc.ID); r.ExitCode != 3 || r.Signal != 0 || r.Err != "" || r.OOMKilled {
		t.Errorf("exit: %+v", r)
	}
	if out, err := b.outputs.printed(tc.ID); out != "out\n" || err != "err\n" {
		t.Errorf("printed %q and %q", out, err)
	}
	// Until it is destroyed the task answers again, at once.
	if r := b.wait(tc.ID); r.ExitCode != 3 {
		t.Errorf("second wait: %+v", r)
	}
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != host.TaskExited || st.Exit.ExitCode != 3 || st.StartedAt.IsZero() || st.CompletedAt.IsZero() ||
		st.Attributes["sandbox"] != refOf(tc) || st.Attributes["class"] != "CC2" {
		t.Errorf("inspect: %+v", st)
	}
	if err := b.host.StopTask(b.ctx(), tc.ID, 0, ""); err != nil {
		t.Errorf("stop of an exited task: %v", err)
	}
	for range 2 {
		b.destroy(tc.ID)
	}
	if _, err := b.host.WaitTask(b.ctx(), tc.ID); err == nil || !strings.Contains(err.Error(), "task not found") {
		t.Errorf("wait after destroy: %v", err)
	}
	b.nothingLeft()
}

func TestInspectOfARunningTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != host.TaskRunning || !st.CompletedAt.IsZero() || st.StartedAt.IsZero() || st.Exit != (host.ExitResult{}) {
		t.Errorf("inspect: %+v", st)
	}
}

func TestTrap7And8StartErrors(t *testing.T) {
	away := errors.New("no route to the engine")
	for _, c := range []struct {
		name        string
		fault       error
		config      map[string]any
		recoverable bool
		words       string
	}{
		{"engine away", errors.Join(runner.ErrUnavailable, away), args("true"), true, "no route"},
		{"pool used up", runner.ErrExhausted, args("true"), true, "exhausted"},
		{"registry away", runner.ErrUnavailable, args("true"), true, "unavailable"},
		{"unexpected", away, args("true"), true, "no route"},
		{"took too long", context.DeadlineExceeded, args("true"), true, "deadline"},
		{"refused by the engine", runner.ErrInvalid, args("true"), false, "invalid"},
		{"no such image", runner.ErrNotFound, args("true"), false, "not found"},
		{"class lost", runner.ErrClassUnavailable, args("true"), false, "class"},
		{"bad config", nil, map[string]any{"privileged": true, "confinement": "CC7"}, false, "2 reasons"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			b.fake.SetFault(func(_ context.Context, op, _ string) error {
				if op == "CreateSandbox" {
					return c.fault
				}
				return nil
			})
			tc := b.task("web", c.config)
			_, _, err := b.host.StartTask(b.ctx(), tc)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("start: %v, want %q in it", err, c.words)
			}
			if got := host.IsRecoverable(err); got != c.recoverable {
				t.Errorf("recoverable %v, want %v: %v", got, c.recoverable, err)
			}
			b.fake.SetFault(nil)
			b.nothingLeft()
			if c.fault == nil && slices.ContainsFunc(b.fake.Calls(), func(c runnertest.Call) bool { return c.Op == "CreateSandbox" }) {
				t.Error("a refused task reached the runner")
			}
		})
	}
}

// TestI6NothingIsLeftOfAFailedStart fails each step of a start in turn.
func TestI6NothingIsLeftOfAFailedStart(t *testing.T) {
	for _, op := range []string{"ListSandboxes", "CreateSandbox", "Exec"} {
		t.Run(op, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			n := 0
			b.fake.SetFault(func(_ context.Context, o, _ string) error {
				if o == op {
					n++
					return runner.ErrUnavailable
				}
				return nil
			})
			if _, _, err := b.host.StartTask(b.ctx(), b.task("web", args("idle"))); err == nil || n == 0 {
				t.Fatalf("start: %v after %d faults", err, n)
			}
			b.fake.SetFault(nil)
			b.nothingLeft()
		})
	}
	t.Run("control", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		b.control.fail = errors.New("no socket")
		if _, _, err := b.host.StartTask(b.ctx(), b.task("web", args("idle"))); err == nil || !host.IsRecoverable(err) {
			t.Errorf("start: %v", err)
		}
		b.nothingLeft()
	})
	t.Run("own folder", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		tc := b.task("web", args("idle"))
		if err := os.Symlink("/etc", filepath.Join(tc.AllocDir, "web", "wardyn")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) {
			t.Errorf("start: %v", err)
		}
		b.nothingLeft()
	})
}

func TestK31StagedVolumes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	b := newBench(t, benchOptions{})
	c := args("true")
	c["volumes"] = []any{"local/workspace:/workspace", "local/conf:/etc/agent:ro"}
	tc := b.task("web", c)
	if err := os.WriteFile(filepath.Join(tc.AllocDir, "web/local/conf"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(b.stage + "/*/*"); len(left) != 2 {
		t.Errorf("staged: %v", left)
	}
	b.wait(tc.ID)
	b.destroy(tc.ID)
	b.nothingLeft()

	c["volumes"] = []any{"local/missing:/x:ro", "local/a:/y"}
	tc = b.task("web", c)
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) || !strings.Contains(err.Error(), "local/missing") {
		t.Errorf("a read-only source that is not there: %v", err)
	}
	tc = b.task("web", args("true"))
	if err := os.Symlink("/etc", filepath.Join(tc.AllocDir, "web/local/link")); err != nil {
		t.Fatal(err)
	}
	c["volumes"] = []any{"local/a:/a", "local/link/passwd:/y"}
	data, err := b.host.EncodeTaskConfig(b.ctx(), c, host.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	tc.DriverConfig = data
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a source behind a link: %v", err)
	}
	b.nothingLeft()
}

// TestK32Sockets: what would answer a connect is found, and nothing else.
func TestK32Sockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "wd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := taskpath.Dirs{Alloc: dir, Name: "t"}
	if got := sockets(d); len(got) > 0 || holdsFiles(d.Secrets()) {
		t.Errorf("in nothing: %v", got)
	}
	for _, p := range []string{d.Secrets(), filepath.Join(d.Shared(), "tmp")} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{filepath.Join(d.Secrets(), "api.sock"), filepath.Join(d.Shared(), "tmp", "c.sock")} {
		l, err := net.Listen("unix", p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.WriteFile(filepath.Join(d.Secrets(), mountMarker), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if holdsFiles(d.Secrets()) {
		t.Error("a socket counts as a file")
	}
	if err := os.WriteFile(filepath.Join(d.Secrets(), "key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sockets(d); !slices.Equal(got, []string{"/alloc/tmp/c.sock", "/secrets/api.sock"}) || !holdsFiles(d.Secrets()) {
		t.Errorf("got %v", got)
	}
}

func TestStopSignalsThenKills(t *testing.T) {
	ignore := func(ctx context.Context, p *runnertest.Process) int {
		p.Trap("SIGTERM", "SIGUSR1")
		<-ctx.Done()
		return 1
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"ignore": ignore}}})
	for _, c := range []struct {
		command, signal string
		timeout         time.Duration
		code, sig       int
	}{
		{"idle", "", time.Minute, 143, 15},
		{"idle", "SIGINT", time.Minute, 130, 2},
		{"idle", "int", time.Minute, 130, 2},
		{"ignore", "SIGUSR1", 50 * time.Millisecond, 137, 9},
		{"ignore", "", 0, 137, 9},
	} {
		tc, _ := b.start("web", args(c.command))
		if err := b.host.StopTask(b.ctx(), tc.ID, c.timeout, c.signal); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if r := b.wait(tc.ID); r.ExitCode != c.code || r.Signal != c.sig {
			t.Errorf("%v: exit %+v", c, r)
		}
		if err := b.host.StopTask(b.ctx(), tc.ID, c.timeout, c.signal); err != nil {
			t.Errorf("%v: second stop: %v", c, err)
		}
		b.destroy(tc.ID)
	}
	tc, _ := b.start("web", args("idle"))
	if err := b.host.StopTask(b.ctx(), tc.ID, 0, "SIGNOPE"); err == nil || !strings.Contains(err.Error(), "no such signal") {
		t.Errorf("unknown signal: %v", err)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestTrap14StopOfAnUnknownTask: an error would be retried for six minutes.
func TestTrap14StopOfAnUnknownTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	if err := b.host.StopTask(b.ctx(), uuid.NewString()+"/web/00000000", time.Second, ""); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	// A task that only the engine knows is stopped all the same.
	tc, _ := b.start("web", args("idle"))
	b.crash()
	if err := b.host.StopTask(b.ctx(), tc.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if e, err := b.fake.Exit(t.Context(), refOf(tc)); err != nil || e.Code != 143 {
		t.Errorf("exit %+v, %v", e, err)
	}
	// Not asked is not stopped.
	b.fake.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	if err := b.host.StopTask(b.ctx(), uuid.NewString()+"/web/00000000", time.Second, ""); err == nil {
		t.Error("an engine that cannot be asked counts as stopped")
	}
	b.fake.SetFault(nil)
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestDestroyForce(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	running, _ := b.plugin().tasks.get(TaskID(tc.ID))
	if err := b.host.DestroyTask(b.ctx(), tc.ID, false); err == nil {
		t.Fatal("a running task was destroyed without force")
	}
	if st, err := b.host.InspectTask(b.ctx(), tc.ID); err != nil || st.State != host.TaskRunning {
		t.Errorf("after the refusal: %+v, %v", st, err)
	}
	b.destroy(tc.ID)
	// Whoever waited for it has been told.
	if o, ended := running.exit(); !ended || o.Code != 137 || o.Signal != 9 || o.Err != "" {
		t.Errorf("exit %+v, %v", o, ended)
	}
	b.nothingLeft()
}

// TestDestroyOfATaskNeverSeen: the client sends it after a failed recovery.
func TestDestroyOfATaskNeverSeen(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	b.crash()
	b.destroy(tc.ID)
	list, err := b.fake.ListSandboxes(t.Context())
	if err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	b.destroy(uuid.NewString() + "/web/00000000")
}

// TestI6DestroyIsTriedAgain: a client only logs the error and never comes back.
func TestI6DestroyIsTriedAgain(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("true"))
	b.wait(tc.ID)
	b.fake.SetFault(func(_ context.Context, op, _ string) error {
		if op == "KillSandbox" {
			return runner.ErrUnavailable
		}
		return nil
	})
	if err := b.host.DestroyTask(b.ctx(), tc.ID, true); err == nil {
		t.Fatal("the destroy that failed says nothing")
	}
	b.fake.SetFault(nil)
	b.eventually("the sandbox is gone", func() bool {
		list, err := b.fake.ListSandboxes(t.Context())
		staged, _ := filepath.Glob(b.stage + "/*")
		return err == nil && len(list) == 0 && len(b.control.Runs()) == 0 && len(staged) == 0
	})
	b.nothingLeft()
}

// TestI3LeftoversOfTheSameTask: a plugin that died in StartTask gets the same
// id again; a restart has another id of the same session.
func TestLeftoversAreCleared(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc := b.task("web", args("idle"))
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	b.crash() // and the client never got a handle
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatalf("same id: %v", err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil {
		t.Error("an id that runs was started again")
	}
	b.crash()
	old := tc.ID
	tc.ID = tc.AllocID + "/web/ffffffff"
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatalf("next attempt: %v", err)
	}
	list, _ := b.fake.ListSandboxes(t.Context())
	if len(list) != 1 || list[0].Ref != refOf(tc) {
		t.Errorf("running: %v, not %s alone", list, refOf(tc))
	}
	b.destroy(tc.ID)
	b.destroy(old)
	b.nothingLeft()
}

// TestOneIdOneCall: two calls for one id must not both make a sandbox.
func TestOneIdOneCall(t *testing.T) {
	b := newBench(t, benchOptions{})
	entered, goOn := make(chan struct{}), make(chan struct{})
	b.fake.SetFault(func(_ context.Context, op, _ string) error {
		if op == "CreateSandbox" {
			close(entered)
			<-goOn
		}
		return nil
	})
	tc := b.task("web", args("idle"))
	started := make(chan error, 1)
	go func() {
		_, _, err := b.host.StartTask(b.ctx(), tc)
		started <- err
	}()
	<-entered
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || !strings.Contains(err.Error(), "is being started") {
		t.Errorf("second start: %v", err)
	}
	if err := b.host.RecoverTask(b.ctx(), host.TaskHandle{Config: tc}); err == nil || !strings.Contains(err.Error(), "is being started") {
		t.Errorf("recover: %v", err)
	}
	close(goOn)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	b.fake.SetFault(nil)
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestNoSlotIsFree(t *testing.T) {
	b := newBench(t, benchOptions{slots: 1})
	tc, _ := b.start("a", args("idle"))
	if _, _, err := b.host.StartTask(b.ctx(), b.task("b", args("idle"))); err == nil || !host.IsRecoverable(err) {
		t.Errorf("second task: %v", err)
	}
	b.destroy(tc.ID)
	tc, _ = b.start("b", args("idle"))
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestK11Signals(t *testing.T) {
	got := make(chan string, 4)
	prog := func(ctx context.Context, p *runnertest.Process) int {
		sigs := p.Trap("SIGHUP", "SIGUSR1")
		for {
			select {
			case s := <-sigs:
				got <- s
			case <-ctx.Done():
				return 1
			}
		}
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"catch": prog}}})
	tc, _ := b.start("web", args("catch"))
	for _, s := range []string{"SIGHUP", "usr1"} {
		// A trap is set a moment after the start.
		b.eventually(s+" arrives", func() bool {
			if err := b.host.SignalTask(b.ctx(), tc.ID, s); err != nil {
				t.Fatal(err)
			}
			select {
			case <-got:
				return true
			case <-time.After(50 * time.Millisecond):
				return false
			}
		})
	}
	for _, s := range []string{"", "SIGNOPE", "9"} {
		if err := b.host.SignalTask(b.ctx(), tc.ID, s); err == nil {
			t.Errorf("signal %q was taken", s)
		}
	}
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGSTOP"); err != nil {
		t.Fatal(err)
	}
	if list, _ := b.fake.ListSandboxes(t.Context()); !list[0].Suspended {
		t.Error("SIGSTOP did not freeze the sandbox")
	}
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err == nil {
		t.Error("a frozen task took a signal")
	}
	// A frozen task stops all the same.
	if err := b.host.StopTask(b.ctx(), tc.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	b.wait(tc.ID)
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err == nil {
		t.Error("an exited task took a signal")
	}
	if err := b.host.SignalTask(b.ctx(), "nobody", "SIGHUP"); err == nil {
		t.Error("an unknown task took a signal")
	}
}

func TestNetworksAreNomads(t *testing.T) {
	b := newBench(t, benchOptions{})
	c, err := b.host.Capabilities(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if !c.SendSignals || !c.Exec || c.FSIsolation != host.IsolationImage || c.MustCreateNetwork || c.NoMounts ||
		!slices.Equal(c.NetworkModes, []host.NetworkMode{host.NetworkHost, host.NetworkGroup}) {
		t.Errorf("capabilities: %+v", c)
	}
	if _, _, err := b.host.CreateNetwork(b.ctx(), "a", ""); err == nil || !strings.Contains(err.Error(), "Nomad does") {
		t.Errorf("create: %v", err)
	}
	if err := b.host.DestroyNetwork(b.ctx(), "a", nil); err == nil {
		t.Error("destroyed a network")
	}
}
