package runnertest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// negctl names the liar that a process of this test binary is to run.
const negctl = "WARDYN_NEGCTL"

// impatient takes a client that has said nothing for a moment for one that is
// gone. It notices when that client speaks again, so that no clock of its own runs.
func impatient(f *Fake) streams {
	return func(ctx context.Context, ref string, s runner.ExecSpec) (*runner.ExecSession, error) {
		x, err := f.ExecStream(ctx, ref, s)
		if err == nil && s.Argv[0] == "nc" && s.Argv[1] != "-l" {
			x.Stdin = &timed{to: x.Stdin, end: x.Close}
		}
		return x, err
	}
}

type timed struct {
	to   io.WriteCloser
	end  func() error
	last time.Time // when a message came
}

func (w *timed) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "message") {
		if !w.last.IsZero() && time.Since(w.last) > 100*time.Millisecond {
			w.end()
		}
		w.last = time.Now()
	}
	return w.to.Write(b)
}

func (w *timed) Close() error { return w.to.Close() }

// TestLiar is the suite over the liar of the environment, and is meant to fail.
func TestLiar(t *testing.T) {
	l, ok := liars[os.Getenv(negctl)]
	if !ok {
		t.Skip("run by TestC4LiarsAreCaught")
	}
	timeout := testenv.Patience
	if l.hangs {
		timeout = 5 * time.Second
	}
	Run(t, Suite{
		New:   func(*testing.T) runner.Runner { return l.lie(New(Options{})) },
		Image: "test", Timeout: timeout, EgressProbe: l.probe,
	})
}

var failedCheck = regexp.MustCompile(`(?m)^    --- FAIL: TestLiar/(\w+) `)

// TestC4LiarsAreCaught: every lie about the contract fails the suite, where it
// should, in its own words, and nowhere else. The suite runs in a process of its own, since a test
// that is meant to fail fails its process.
func TestC4LiarsAreCaught(t *testing.T) {
	covered := map[string]bool{}
	for name, l := range liars {
		covered[l.caught[0]] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := "^TestLiar$"
			if l.hangs {
				run += "/^" + l.caught[0] + "$"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+run, "-test.v", "-test.timeout="+(2*testenv.Patience).String())
			cmd.Env = append(os.Environ(), negctl+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite passes it:\n%s", out)
			}
			var failed []string
			for _, m := range failedCheck.FindAllStringSubmatch(string(out), -1) {
				failed = append(failed, m[1])
			}
			want := slices.Sorted(slices.Values(l.caught))
			slices.Sort(failed)
			if !slices.Equal(failed, want) || !strings.Contains(string(out), l.says) {
				t.Errorf("failed %v, want %v, with %q:\n%s", failed, want, l.says, out)
			}
		})
	}
	for _, c := range checks {
		// Safety in parallel is the race detector's to judge.
		if !covered[c.name] && c.name != "C21Parallel" {
			t.Errorf("no liar is caught by %s first", c.name)
		}
	}
}

// TestC5NoClassesPass: a runner that claims nothing owes nothing, unless the
// suite is told that this machine has all it takes.
func TestC5NoClassesPass(t *testing.T) {
	Run(t, Suite{New: func(*testing.T) runner.Runner { return empty{New(Options{})} }, Image: "test"})
}

// empty gives no class.
type empty struct{ *Fake }

func (e empty) Capabilities(context.Context) (runner.Capabilities, error) {
	return runner.Capabilities{Driver: e.Name()}, nil
}

func (empty) CreateSandbox(context.Context, runner.SandboxSpec) (runner.Sandbox, error) {
	return runner.Sandbox{}, runner.ErrClassUnavailable
}
