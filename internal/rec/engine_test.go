package rec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// inside is where the program is found in test containers.
const inside = "/.wardyn/wardyn-rec"

// sandbox is a container with the program as its pid 1, without a capability.
type sandbox struct {
	t  *testing.T
	cl *client.Client
	id string
}

// onRuntimes runs test on every runtime of the engine.
func onRuntimes(t *testing.T, test func(t *testing.T, start func(args ...string) sandbox)) {
	cl := testenv.Client(t, testenv.Engine(t))
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			test(t, func(args ...string) sandbox { return startSandbox(t, cl, image, rt, args) })
		})
	}
}

func startSandbox(t *testing.T, cl *client.Client, image, rt string, args []string) sandbox {
	t.Helper()
	c, err := cl.ContainerCreate(t.Context(), &container.Config{Image: image, User: "1000", Entrypoint: []string{inside}, Cmd: args},
		&container.HostConfig{Runtime: rt, NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, Binds: []string{recPath + ":" + inside + ":ro"}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if err := cl.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return sandbox{t, cl, c.ID}
}

// exit waits for the main process's code.
func (s sandbox) exit() int64 {
	s.t.Helper()
	ctx := testCtx(s.t)
	done, errs := s.cl.ContainerWait(ctx, s.id, container.WaitConditionNotRunning)
	select {
	case r := <-done:
		return r.StatusCode
	case err := <-errs:
		s.t.Fatal(err)
		return -1
	}
}

// exec runs argv to the end of its output and returns that and its code.
func (s sandbox) exec(tty bool, argv ...string) (string, int) {
	s.t.Helper()
	ctx := testCtx(s.t)
	e, err := s.cl.ContainerExecCreate(ctx, s.id, container.ExecOptions{Cmd: argv, Tty: tty, AttachStdout: true, AttachStderr: true})
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := s.cl.ContainerExecAttach(ctx, e.ID, container.ExecAttachOptions{Tty: tty})
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Close()
	defer context.AfterFunc(ctx, a.Close)()
	var out bytes.Buffer
	if tty {
		_, err = io.Copy(&out, a.Reader)
	} else {
		_, err = stdcopy.StdCopy(&out, &out, a.Reader)
	}
	if err != nil {
		s.t.Fatalf("%v: %v", argv, err)
	}
	for {
		i, err := s.cl.ContainerExecInspect(ctx, e.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		if !i.Running {
			return strings.ReplaceAll(out.String(), "\r\n", "\n"), i.ExitCode
		}
	}
}

func TestF11MainProcessOnRuntimes(t *testing.T) {
	onRuntimes(t, func(t *testing.T, start func(...string) sandbox) {
		for script, want := range map[string]int64{
			"exit 3": 3, "kill -SEGV $$": 139, "kill -TERM $$": 143,
			"sleep 1000 & exit 4": 4, // which holds the output
		} {
			if got := start("init", "--", "sh", "-c", script).exit(); got != want {
				t.Errorf("%s: %d, want %d", script, got, want)
			}
		}
		if got := start("init", "--", "nope").exit(); got != exitNotFound {
			t.Errorf("no such program: %d", got)
		}
		stopped := start("init", "-idle")
		// A signal that comes before a program can catch it is not caught; by
		// the time another has run in there, the first one can.
		stopped.exec(false, inside, "exec", "up", "--", "sh", "-c", "true")
		if err := stopped.cl.ContainerKill(t.Context(), stopped.id, "TERM"); err != nil {
			t.Fatal(err)
		}
		if got := stopped.exit(); got != 0 {
			t.Errorf("idle: %d, want 0", got)
		}
	})
}

func TestK10ExecOnRuntimes(t *testing.T) {
	onRuntimes(t, func(t *testing.T, start func(...string) sandbox) {
		s := start("init", "-idle")
		out, code := s.exec(false, inside, "exec", "bg", "--", "sh", "-c", "sleep 1000 & seq 50000; exit 3")
		if code != 3 || !strings.HasPrefix(out, "1\n") || !strings.HasSuffix(out, "\n50000\n") {
			t.Errorf("background child: exit %d, %d bytes", code, len(out))
		}
		if out, code = s.exec(true, inside, "exec", "-cols", "123", "-rows", "45", "tty", "--", "sh", "-c", "stty size; exit 5"); code != 5 || out != "45 123\n" {
			t.Errorf("terminal: exit %d, %q", code, out)
		}
		if out, code = s.exec(false, inside, "exec", "gone", "--", "nope"); code != exitNotFound || out != "wardyn-rec: exec nope: not found\n" {
			t.Errorf("no such program: exit %d, %q", code, out)
		}
		t.Run("kill", func(t *testing.T) { killInside(t, s) })
	})
}

// killInside kills an exec by its id and looks at what is left.
func killInside(t *testing.T, s sandbox) {
	ended := make(chan int)
	go func() {
		_, code := s.exec(false, inside, "exec", "victim", "--", "sh", "-c", "sleep 77 & sleep 77")
		ended <- code
	}()
	sleeps := func() int {
		out, _ := s.exec(false, "sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -cx 'sleep 77 '")
		var n int
		fmt.Sscan(out, &n)
		return n
	}
	eventually(t, "both run", func() bool { return sleeps() == 2 })
	if out, code := s.exec(false, inside, "kill", "victim"); code != 0 {
		t.Fatalf("kill: exit %d, %s", code, out)
	}
	if code := testenv.Await(t, "the end of the killed exec", ended); code != 137 {
		t.Errorf("killed exec: %d, want 137", code)
	}
	// Killed is not yet dead: a process has to be run to end.
	eventually(t, "none of its processes is left", func() bool { return sleeps() == 0 })
}

// TestK1ProbeOnRuntimes: a program of 64 processes, 20 times in a row.
func TestK1ProbeOnRuntimes(t *testing.T) {
	onRuntimes(t, func(t *testing.T, start func(...string) sandbox) {
		s := start("init", "-idle")
		for n := range 20 {
			if out, code := s.exec(false, inside, "probe"); code != 0 || !strings.Contains(out, `"processes":64,"right":64`) {
				t.Fatalf("run %d: exit %d, %s", n, code, out)
			}
		}
	})
}
