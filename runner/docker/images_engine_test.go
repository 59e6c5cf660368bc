package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// imageCase is an image of an unusual kind and what becomes of a task in it.
type imageCase struct {
	image testenv.ImageConfig
	task  runner.TaskProcess
	says  string // part of its output, or of the error
	code  string // "" is refused with says
	cc2   string // the code under gVisor where it differs
}

// Images as they come: without a shell, without users, with nothing at all, of
// other machines, too large to start, never ending. Each runs, or is refused in
// words that name it.
func TestUnusualImages(t *testing.T) {
	hello := string(readBuilt(t, "./runner/docker/testdata/hello", "amd64"))
	hello32 := string(readBuilt(t, "./runner/docker/testdata/hello", "386"))
	scratch := func(c testenv.ImageConfig) testenv.ImageConfig {
		c.Empty, c.ExtraFiles = true, map[string]string{"hello": hello}
		return c
	}
	cases := map[string]imageCase{
		"scratch": {image: scratch(testenv.ImageConfig{Entrypoint: []string{"/hello"}}), says: "hello from uid 0", code: "0"},
		"a number for a user, and no passwd": {image: scratch(testenv.ImageConfig{Entrypoint: []string{"/hello"}, User: "1234:1234"}),
			says: "hello from uid 1234", code: "0"},
		"a user that is not in passwd": {image: testenv.ImageConfig{Cmd: []string{"/bin/sh"}, User: "ghost"}, says: "ghost"},
		"a user's name, and no passwd": {image: scratch(testenv.ImageConfig{Entrypoint: []string{"/hello"}, User: "ghost"}), says: "ghost"},
		"no shell": {image: scratch(testenv.ImageConfig{}), task: runner.TaskProcess{Argv: []string{"sh", "-c", "true"}},
			says: "exec sh: not found", code: "127"},
		"another machine's": {image: testenv.ImageConfig{Cmd: []string{"/bin/sh"}, Architecture: "arm64"}, says: "linux/arm64 and this host is linux/amd64"},
		"a 32-bit machine's": {image: testenv.ImageConfig{Empty: true, Architecture: "386", Entrypoint: []string{"/hello"}, ExtraFiles: map[string]string{"hello": hello32}},
			says: "hello", code: "0", cc2: "126"},
		"a huge variable":   {image: testenv.ImageConfig{Cmd: []string{"/bin/sh"}, Env: []string{"BIG=" + strings.Repeat("x", 200<<10)}}, says: "sets BIG to"},
		"a large variable":  {image: scratch(testenv.ImageConfig{Entrypoint: []string{"/hello"}, Env: []string{"BIG=" + strings.Repeat("x", 100<<10)}}), says: "hello", code: "0"},
		"nothing to start":  {image: testenv.ImageConfig{}, says: "names one"},
		"a missing program": {image: scratch(testenv.ImageConfig{Entrypoint: []string{"/no/such"}}), says: "exec /no/such: not found", code: "127"},
	}
	w := newWorld(t)
	for name, c := range cases {
		image := testenv.ImageWith(t, c.image)
		for _, rt := range testenv.Runtimes(t) {
			w.assumeWorks(t, classFor(rt), rt)
			t.Run(name+" under "+rt, func(t *testing.T) { w.testImage(t, c, image, rt) })
		}
	}
}

func (w *world) testImage(t *testing.T, c imageCase, image, rt string) {
	sink := newCollector()
	spec := runner.SandboxSpec{RunID: specFor(t, rt).RunID, Image: image, ConfinementClass: classFor(rt), Task: &c.task}
	spec.Task.NoNetwork, spec.Task.Output = true, sink
	_, err := w.CreateSandbox(t.Context(), spec)
	ref := AgentName(spec.RunID)
	defer func() {
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}()
	if err == nil {
		_, err = w.Exec(t.Context(), ref, nil)
	}
	if c.code == "" {
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("err = %v; want %q", err, c.says)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := c.code
	if rt == "runsc" && c.cc2 != "" {
		want = c.cc2
	}
	got := (&box{Runner: w.Runner, ref: ref}).waited(t)
	out, errs := sink.streams(t)
	if got != want || !strings.Contains(out+errs, c.says) {
		t.Errorf("exit %s, want %s; it says %q", got, want, out+errs)
	}
}

// An entrypoint that never ends and heeds no signal is stopped all the same.
func TestEntrypointThatNeverEnds(t *testing.T) {
	image := testenv.ImageWith(t, testenv.ImageConfig{Entrypoint: sh("trap '' TERM INT HUP; echo up; while :; do sleep 1; done")})
	w := newWorld(t)
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.Image, spec.Task = image, &runner.TaskProcess{NoNetwork: true}
		b := &box{Runner: w.Runner, ref: w.startedSandbox(t, spec)}
		b.awaitLog(t, "up\n")
		if err := b.StopProcess(t.Context(), b.ref, "", time.Second); err != nil {
			t.Errorf("%s: %v", rt, err)
		}
		if got := b.waited(t); got != "137" {
			t.Errorf("%s: exit %s", rt, got)
		}
	}
}

// readBuilt compiles a static program for another word size of this machine.
func readBuilt(t *testing.T, pkg, arch string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = testenv.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, b)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
