package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K26, K30: an image is no weapon by its links. Those below the driver's folder
// are covered, one in its place is refused, and so is one that leads a mount
// there. Root in the sandbox cannot put anything in that folder's place either.
func TestK30ImageLinks(t *testing.T) {
	below := testenv.ImageWith(t, testenv.ImageConfig{Links: map[string]string{
		".wardyn/wardyn-rec": "/data/fake", ".wardyn/gate": "/data/fake", ".wardyn/stages": "/data",
	}})
	instead := testenv.ImageWith(t, testenv.ImageConfig{Links: map[string]string{".wardyn": "/data"}})
	onto := testenv.ImageWith(t, testenv.ImageConfig{Links: map[string]string{"data": "/.wardyn"}})
	planted := t.TempDir()
	for _, name := range []string{"fake", "wardyn-rec", "stages.json"} {
		if err := os.WriteFile(filepath.Join(planted, name), []byte("#!/bin/sh\necho planted\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		t.Run(rt, func(t *testing.T) {
			spec := func(image string) runner.SandboxSpec {
				s := specFor(t, rt)
				s.Image, s.Task = image, &runner.TaskProcess{
					Argv: sh("exec sleep 98765"), User: "0", NoNetwork: true,
					Mounts: []runner.TaskMount{{Source: planted, Target: "/data"}},
				}
				return s
			}
			for image, says := range map[string]string{instead: "has a link", onto: "links lead it"} {
				if _, err := w.CreateSandbox(t.Context(), spec(image)); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want %q", err, says)
				}
			}
			s := spec(below)
			s.Task.Stages = []runner.Stage{{Name: "init", Script: []byte("echo staged > /made"), Code: 122}}
			b := &box{Runner: w.Runner, ref: w.startedSandbox(t, s)}
			testenv.Eventually(t, "the stage ran", func() bool { return b.run(t, runner.ExecSpec{Argv: sh("cat /made")}, "").stdout == "staged\n" })
			b.run(t, runner.ExecSpec{Argv: sh("mv /.wardyn /gone; ln -sfn /data /.wardyn; rm -rf /.wardyn; cp /data/fake /.wardyn/wardyn-rec")}, "")
			if got := b.run(t, runner.ExecSpec{Argv: sh("echo still ours")}, ""); got.stdout != "still ours\n" || got.code != 0 {
				t.Errorf("an exec after root tried: %+v", got)
			}
		})
	}
}
