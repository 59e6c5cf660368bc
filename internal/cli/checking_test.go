package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestChecks: each check is asked where it belongs and its changes are told; one
// that has failed for too long restarts its task, by the task's policy.
func TestChecks(t *testing.T) {
	c := runCall(t, "checks.nomad.hcl", nil, nil)
	for _, want := range []string{
		"  * Check of service \"checks-g\": critical: dial tcp 127.0.0.1:",
		"a * Check \"ready\": critical: 2 a the-alloc\n",
		"b * Check \"fine\": passing: 0\n",
		"b * Check \"hangs\": critical: cut off\n",
		"b * Restart signaled: Check \"hangs\" has failed for too long\nb * Killing\n",
		"b * Terminated: exit code 143\nb * Restarting in 1s: attempt 1 of 1",
		"b * Failed: all 1 attempts",
		"service is not registered here",
	} {
		if !strings.Contains(c.stderr, want) {
			t.Errorf("stderr lacks %q", want)
		}
	}
	if n := strings.Count(c.stderr, "Check \"fine\": "); n < 1 || n > 2 { // once in each of the two runs, if it had the time
		t.Errorf("fine is told %d times", n)
	}
	if n := strings.Count(c.stderr, "a * Started"); n != 1 {
		t.Errorf("a was started %d times", n)
	}
	if c.code != 143 || c.err != nil || t.Failed() {
		t.Errorf("exit %d, %v\n%s", c.code, c.err, c.stderr)
	}
}

// TestGroupCheckRestartsAll: what fails for the whole group restarts all of it.
func TestGroupCheckRestartsAll(t *testing.T) {
	c := runCall(t, "groupcheck.nomad.hcl", nil, nil)
	for _, task := range []string{"a", "b"} {
		if !strings.Contains(c.stderr, task+" * Restart signaled: Check \"web\" has failed for too long\n") {
			t.Errorf("%s is not restarted", task)
		}
	}
	if c.code != 143 || t.Failed() {
		t.Errorf("exit %d\n%s", c.code, c.stderr)
	}
}

// scripted is pluginJob with checks of the task: name, timeout and script each.
func scripted(checks ...[3]string) string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "check {\nname = %q\ntype = \"script\"\ncommand = \"sh\"\nargs = [\"-c\", %q]\ninterval = \"5m\"\ntimeout = %q\n}\n", c[0], c[2], c[1])
	}
	return strings.Replace(pluginJob, `task "web" {`, "task \"web\" {\nservice {\n"+b.String()+"}\n", 1)
}

// TestChecksThroughThePlugin: a script runs in the task, its code is the result,
// and one that does not end in time is killed.
func TestChecksThroughThePlugin(t *testing.T) {
	code, _, stderr := runPlugin(t, []string{"-var", "script=sleep 600", "JOB"}, scripted(
		[3]string{"well", "5m", "echo first; echo well in ${NOMAD_TASK_NAME}"}, [3]string{"warned", "5m", "exit 1"},
		[3]string{"ill", "5m", "exit 7"}, [3]string{"late", "1s", "sleep 600"},
	), "all of: web * Check \"well\": passing: well in web\n|web * Check \"warned\": warning\n|web * Check \"ill\": critical: exit code 7\n|"+
		"web * Check \"late\": critical: the command did not end within 1s and was killed\n")
	if code != 143 && code != 137 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}
