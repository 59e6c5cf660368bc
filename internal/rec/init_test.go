package rec

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestF11ExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	cases := []struct {
		name   string
		argv   []string
		code   int
		stderr string // "" for none
	}{
		{"success", []string{"true"}, 0, ""},
		{"failure", []string{"sh", "-c", "exit 7"}, 7, ""},
		{"largest code", []string{"sh", "-c", "exit 255"}, 255, ""},
		{"by SIGTERM", []string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{"by SIGKILL", []string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{"by SIGSEGV", []string{"sh", "-c", "kill -SEGV $$"}, 139, ""},
		{"not on PATH", []string{"no-such-program"}, 127, "wardyn-rec: exec no-such-program: not found\n"},
		{"no such path", []string{dir + "/nope"}, 127, "wardyn-rec: exec " + dir + "/nope: not found\n"},
		{"folder", []string{dir}, 126, "wardyn-rec: exec " + dir + ": is a directory\n"},
		{"no program", []string{file("data", "\x00\x01", 0o755)}, 126, "wardyn-rec: exec " + dir + "/data: not a program for this machine, and no #! line\n"},
		{"no interpreter", []string{file("script", "#!/no/such/sh\n", 0o755)}, 126, "wardyn-rec: exec " + dir + "/script: its interpreter or loader is not in this image\n"},
		{"not executable", []string{file("plain", "x", 0o644)}, 126, "wardyn-rec: exec " + dir + "/plain: permission denied (is it executable for this user?)\n"},
	}
	for _, form := range [][]string{{"init", "--"}, {"exec", "some-id", "--"}} {
		for _, c := range cases {
			t.Run(form[0]+" "+c.name, func(t *testing.T) {
				cmd := wardynRec(t, append(form, c.argv...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				if got := code(t, cmd.Run()); got != c.code || stderr.String() != c.stderr {
					t.Errorf("exit %d, stderr %q; want %d, %q", got, stderr.String(), c.code, c.stderr)
				}
			})
		}
	}
}

func TestUsageIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"init"}, {"init", "--"}, {"init", "true"}, {"init", "-idle", "--", "true"}, {"init", "--", ""},
		{"exec", "--", "true"}, {"exec", "id", "true"}, {"exec", "-cols", "x", "id", "--", "true"}, {"exec", "-cols", "70000", "id", "--", "true"},
		{"kill"}, {"kill", "-s", "SIGNOPE", "id"}, {"kill", "a", "b"}, {"frobnicate"}, {"netprobe"}, {"netprobe", "tcp:host:80"},
	} {
		if got := code(t, wardynRec(t, args...).Run()); got != exitUsage {
			t.Errorf("%q: exit %d, want %d", args, got, exitUsage)
		}
	}
}

func TestPathIsTheTasksOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/tool", []byte("#!/bin/sh\necho $1 in $(pwd)\nexit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		dir  string
		argv string
		code int
	}{
		{[]string{"PATH=/nope:" + dir + ":/bin"}, "/", "tool", 5},
		{[]string{"PATH=/bin"}, dir, "./tool", 5},
		{[]string{"PATH=:/bin"}, dir, "tool", 5},
		{[]string{"PATH="}, "/", "tool", 127},
		{nil, "/", "true", 0}, // no PATH at all
	} {
		cmd := wardynRec(t, "init", "--", c.argv, "hello")
		cmd.Env, cmd.Dir = append([]string{"X=y"}, c.env...), c.dir
		if got := code(t, cmd.Run()); got != c.code {
			t.Errorf("%q in %s with %q: exit %d, want %d", c.argv, c.dir, c.env, got, c.code)
		}
	}
}

func TestNothingIsInherited(t *testing.T) {
	dirty := func(argv ...string) string {
		cmd := exec.CommandContext(testCtx(t), os.Args[0], append([]string{recPath, "init", "--"}, argv...)...)
		cmd.Env = append(os.Environ(), dirtyEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	// Not through a shell, which may put its signals right by itself.
	// Signals 32 and 33 are the C library's own, which the race detector brings
	// in and no program may touch.
	for line := range strings.Lines(dirty("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")) {
		name, hex, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		bits, err := strconv.ParseUint(hex, 16, 64)
		if err != nil || bits&^(3<<31) != 0 {
			t.Errorf("%s is %s, %v; want none", name, hex, err)
		}
	}
	// No pipe, which the shell itself would hold for a moment.
	if got, want := dirty("sh", "-c", "ls /proc/$$/fd; :"), "0\n1\n2\n"; got != want {
		t.Errorf("descriptors %q, want %q", got, want)
	}
}

func TestF11OrphansLeaveNoZombies(t *testing.T) {
	out, err := asPID1(t, "init", "--", "sh", "-c", `
		for i in $(seq 30); do (sleep 0.05 & ); done
		set -- /proc/[0-9]*
		while [ $# -gt 2 ]; do sleep 0.02; set -- /proc/[0-9]*; done
		echo $@; read name </proc/1/comm; echo $$ and $name`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var self int
	fmt.Sscanf(string(out), "/proc/1 /proc/%d", &self)
	if want := fmt.Sprintf("/proc/1 /proc/%d\n%[1]d and wardyn-rec\n", self); string(out) != want {
		t.Errorf("what is left beside pid 1 and the command: %q", out)
	}
}

func TestF10SignalsReachTheCommand(t *testing.T) {
	names := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		"WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT, "PWR": syscall.SIGPWR, "ALRM": syscall.SIGALRM, "IO": syscall.SIGIO,
	}
	script := ""
	for n := range names {
		script += fmt.Sprintf("trap 'echo %s' %s\n", n, n)
	}
	cmd := wardynRec(t, "init", "--", "sh", "-c", script+"trap 'echo TERM; exit 9' TERM\necho ready\nwhile :; do sleep 0.02; done")
	out := readLines(t, cmd)
	out.want("ready")
	for n, s := range names {
		cmd.Process.Signal(s)
		out.want(n)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	out.want("TERM")
	if got := code(t, cmd.Wait()); got != 9 {
		t.Errorf("exit %d, want 9", got)
	}
}

func TestK11OwnSignalsAreNotForwarded(t *testing.T) {
	cmd := wardynRec(t, "init", "--", "sh", "-c", "trap 'echo URG' URG; trap 'echo PIPE' PIPE; trap 'echo TTOU' TTOU; trap 'echo TERM; exit 0' TERM\necho ready\nwhile :; do sleep 0.02; done")
	out := readLines(t, cmd)
	out.want("ready")
	for _, s := range []syscall.Signal{syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTOU, syscall.SIGTERM} {
		cmd.Process.Signal(s)
	}
	out.want("TERM")
	cmd.Wait()
}

func TestIgnoredTermIsTheCommandsOwnChoice(t *testing.T) {
	cmd := wardynRec(t, "init", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done")
	out := readLines(t, cmd)
	out.want("ready")
	cmd.Process.Signal(syscall.SIGTERM)
	child := childOf(t, cmd.Process.Pid)
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("the command is gone: %v", err)
	}
	syscall.Kill(child, syscall.SIGKILL)
	if got := code(t, cmd.Wait()); got != 137 {
		t.Errorf("exit %d, want 137", got)
	}
}

func TestF11GrandchildHoldingStdoutDoesNotDelayTheExit(t *testing.T) {
	cmd := asPID1(t, "init", "--", "sh", "-c", "sleep 1000 & echo started; exit 4")
	out := readLines(t, cmd)
	out.want("started")
	if got := code(t, cmd.Wait()); got != 4 {
		t.Errorf("exit %d, want 4", got)
	}
}

func TestFullStdoutLosesNothing(t *testing.T) {
	out, err := wardynRec(t, "init", "--", "sh", "-c", "seq 300000; exit 6").Output()
	if got := code(t, err); got != 6 || !bytes.HasSuffix(out, []byte("\n300000\n")) || len(out) != 1988895 {
		t.Errorf("exit %d, %d bytes", got, len(out))
	}
}

func TestK5IdleEndsWhenToldTo(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		cmd := asPID1(t, "init", "-idle")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid1 := childOf(t, cmd.Process.Pid)
		eventually(t, "wardyn-rec is pid 1", func() bool { return isExe(pid1) && caught(pid1) })
		// An orphan handed to it is reaped.
		if out, err := exec.Command("nsenter", "-t", fmt.Sprint(pid1), "-p", "-m", "sh", "-c", "(sleep 0.01 &)").CombinedOutput(); err != nil {
			t.Fatalf("nsenter: %v %s", err, out)
		}
		eventually(t, "no child left", func() bool {
			return len(children(pid1)) == 0
		})
		syscall.Kill(pid1, syscall.SIGHUP) // means nothing to it
		syscall.Kill(pid1, s)
		if got := code(t, cmd.Wait()); got != 0 {
			t.Errorf("%v: exit %d, want 0", s, got)
		}
	}
}

// isExe: pid has become the program under test.
func isExe(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == recPath
}

// caught: it has its handlers for SIGHUP in place.
func caught(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "SigCgt:\t")
	return len(rest) > 15 && strings.ContainsRune("13579bdf", rune(rest[15]))
}
