package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K30, K31: a link leads no mount over the driver's own files, whoever left it:
// in a kept volume, in what an empty volume takes over from the image, or in
// the sandbox itself, in the life before it was parked. It is refused before a
// program has run. A link that leads to a place jobs may name is followed.
func TestK31LinksInVolumes(t *testing.T) {
	image := testenv.ImageWith(t, testenv.ImageConfig{Links: map[string]string{"data/x": "/.wardyn"}})
	planted := t.TempDir()
	if err := os.WriteFile(filepath.Join(planted, recorderFile), []byte("#!/bin/sh\necho planted\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		t.Run(rt, func(t *testing.T) {
			spec := func(image string, mounts ...runner.TaskMount) runner.SandboxSpec {
				s := specFor(t, rt)
				s.Image, s.Task = image, &runner.TaskProcess{Argv: sh("exec sleep 98765"), User: "0", NoNetwork: true, Mounts: mounts}
				return s
			}
			kept := w.volumeWith(t, map[string]string{"x": "/.wardyn", "fair": "/tmp"})
			for what, s := range map[string]runner.SandboxSpec{
				"a kept volume's": spec(testenv.Image(t), runner.TaskMount{Volume: kept, Target: "/data"}, runner.TaskMount{Source: planted, Target: "/data/x"}),
				"the image's, in a new volume": spec(image,
					runner.TaskMount{Volume: w.volumeWith(t, nil), Target: "/data"}, runner.TaskMount{Source: planted, Target: "/data/x"}),
			} {
				if _, err := w.Launch(t.Context(), s); !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), `mount at "/data/x": links lead it to "/.wardyn"`) {
					t.Errorf("%s link: %v", what, err)
					w.KillSandbox(t.Context(), AgentName(s.RunID))
				}
			}

			b := &box{Runner: w.Runner, ref: w.startedSandbox(t, spec(testenv.Image(t), runner.TaskMount{Volume: kept, Target: "/data"},
				runner.TaskMount{Source: planted, Target: "/data/fair/x"}, runner.TaskMount{Source: filepath.Join(planted, recorderFile), Target: "/srv/on/" + recorderFile}))}
			again := func() error {
				if err := b.Park(t.Context(), b.ref); err != nil {
					t.Fatal(err)
				}
				return b.Start(t.Context(), b.ref)
			}
			if err := again(); err != nil {
				t.Fatalf("with fair links: %v", err)
			}
			if got := b.run(t, runner.ExecSpec{Argv: sh("ls /tmp/x; mv /srv/on /srv/was && ln -s /.wardyn /srv/on")}, ""); got.stdout != recorderFile+"\n" || got.code != 0 {
				t.Fatalf("in its second life: %+v", got)
			}
			if err := again(); !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), `links lead it to "/.wardyn/wardyn-rec"`) {
				t.Errorf("after it had put a link in a mount's way: %v", err)
			}
		})
	}
}

// volumeWith makes a volume with links in it, which goes with the test.
func (w *world) volumeWith(t *testing.T, links map[string]string) string {
	t.Helper()
	name := "wardyn-test-" + uuid.NewString()
	if err := w.CreateVolume(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.RemoveVolume(ctx, name); err != nil {
			t.Error(err)
		}
	})
	v, err := w.inspectVolume(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for at, to := range links {
		if err := os.Symlink(to, filepath.Join(v.Mountpoint, at)); err != nil {
			t.Fatal(err)
		}
	}
	return name
}
