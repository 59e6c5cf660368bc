package docker

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K23, D36 to D43: an image of a sandbox has its files, and nothing of its
// environment, wherever one looks.
func TestK23CommitKeepsFilesAndNoSecrets(t *testing.T) {
	base := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sh", "-c", "cat /made"}, Env: []string{"KEPT=of the image", "KEY=of the image"}})
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	spec := specFor(t, "runc")
	spec.Image, spec.Env = base, map[string]string{"KEY": "planted-secret-one", "OTHER": "planted-secret-two"}
	spec.Labels = map[string]string{labelNamespace: "team"}
	spec.Task = &runner.TaskProcess{Argv: sh("echo planted-secret-three >/tmp/x; echo text >/made; rm /etc/group; sleep 98765"), User: "0", NoNetwork: true}
	b := &box{Runner: w.Runner, ref: w.sandbox(t, spec), cl: w.cl}
	b.start(t)
	testenv.Eventually(t, "the task has done its work", func() bool {
		return b.run(t, runner.ExecSpec{Argv: sh("test -e /made && ! test -e /etc/group")}, "").code == 0
	})
	tag := "wardyn-snap/team/" + strings.ToLower(t.Name()) + uuid.NewString()[:8]
	ref, err := b.Commit(t.Context(), b.ref, tag, []string{"KEY", "ABSENT"})
	if err != nil || ref != tag {
		t.Fatal(ref, err)
	}
	t.Cleanup(func() {
		ctx, cancel := undo()
		defer cancel()
		if err := w.RemoveOwnImage(ctx, tag); err != nil {
			t.Error(err)
		}
	})
	i, err := w.inspectFull(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(i.Config.Env, " "); got != "PATH=/bin:/usr/bin KEPT=of the image ABSENT= KEY=" {
		t.Errorf("D39: environment %q", got)
	}
	if got := strings.Join(i.Config.Cmd, " "); got != "/bin/sh -c cat /made" || len(i.Config.Entrypoint) != 0 {
		t.Errorf("D42: command %q, entrypoint %q", got, i.Config.Entrypoint)
	}
	saved, err := w.cl.ImageSave(t.Context(), []string{tag})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	all, err := io.ReadAll(saved)
	if err != nil || len(all) < 1000 {
		t.Fatal(len(all), err)
	}
	for _, secret := range []string{"planted-secret-one", "planted-secret-two", "planted-secret-three", "rainier"} {
		if bytes.Contains(all, []byte(secret)) {
			t.Errorf("the saved image holds %q", secret)
		}
	}
	listed, err := w.ListOwnImages(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Ref != tag || listed[0].Bytes > 1<<20 {
		t.Errorf("list: %+v, %v", listed, err)
	}
	w.snapshotAgain(t, b, tag, w.fromSnapshot(t, tag))
}

// snapshotAgain makes other images under a name, of which the first has user for
// a sandbox: what had the name before goes as soon as nobody uses it.
func (w *world) snapshotAgain(t *testing.T, b *box, tag, user string) {
	ids := map[string]bool{}
	for _, text := range []string{"two", "three"} {
		if got := b.run(t, runner.ExecSpec{Argv: sh("echo " + text + " >/made")}, ""); got.code != 0 {
			t.Fatal(got)
		}
		if _, err := b.Commit(t.Context(), b.ref, tag, nil); err != nil {
			t.Fatal(err)
		}
		f, err := w.inspectImage(t.Context(), tag)
		if err != nil || ids[f.ID] {
			t.Fatal(f.ID, err)
		}
		ids[f.ID] = true
	}
	// Several at once are all made, and one of them has the name.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := b.Commit(t.Context(), b.ref, tag, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The first is in use, all others are gone but the last.
	if left, err := w.Replaced(t.Context(), 0); err != nil || len(left) != 1 || ids[left[0]] {
		t.Errorf("replaced: %v, %v", left, err)
	}
	if err := w.KillSandbox(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	if left, err := w.Replaced(t.Context(), justUsed); err != nil || len(left) != 0 {
		t.Errorf("replaced and made long ago: %v, %v", left, err)
	}
	if err := w.DropReplaced(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if left, err := w.Replaced(t.Context(), 0); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// fromSnapshot starts a sandbox from an image of ours, in and out of its namespace,
// which is there still.
func (w *world) fromSnapshot(t *testing.T, tag string) (ref string) {
	spec := specFor(t, "runc")
	spec.Image, spec.Env = tag, map[string]string{"KEY": "new"}
	sink := newCollector()
	spec.Task = &runner.TaskProcess{Argv: sh("cat /made; ls /etc/group; echo $KEY"), NoNetwork: true, Output: sink}
	spec.Labels = map[string]string{labelNamespace: "other"}
	if _, err := w.CreateSandbox(t.Context(), spec); !errors.Is(err, runner.ErrDenied) {
		t.Errorf("another namespace: %v", err)
	}
	spec.Labels[labelNamespace] = "team"
	b := &box{Runner: w.Runner, ref: w.sandbox(t, spec), cl: w.cl}
	b.start(t)
	b.waited(t)
	if out, errs := sink.streams(t); out != "text\nnew\n" || !strings.Contains(errs, "/etc/group") {
		t.Errorf("D41: %q, %q", out, errs)
	}
	if err := w.RemoveOwnImage(t.Context(), tag); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("in use: %v", err)
	}
	spec.RunID, spec.Image, spec.Task.Output = uuid.New(), "wardyn-snap/team/none", nil
	if _, err := w.CreateSandbox(t.Context(), spec); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("none of this name: %v", err)
	}
	return b.ref
}

// D-11, K24: gVisor keeps changes to itself unless told otherwise; that is
// noticed before anything is committed.
func TestK24GVisorOverlayIsRefused(t *testing.T) {
	for _, rt := range testenv.Runtimes(t) {
		if rt == "runc" {
			continue
		}
		b := startedBox(t, boxSpec{runtime: rt, argv: []string{"sleep", "98765"}})
		changes, err := b.cl.ContainerDiff(t.Context(), b.ref)
		if err != nil {
			t.Fatal(err)
		}
		kept := false
		for _, c := range changes {
			kept = kept || strings.HasPrefix(c.Path, "/.gvisor.filestore")
		}
		tag := "wardyn-snap:" + uuid.NewString()
		_, err = b.Commit(t.Context(), b.ref, tag, nil)
		if rerr := b.RemoveOwnImage(t.Context(), tag); rerr != nil {
			t.Error(rerr)
		}
		if kept != errors.Is(err, runner.ErrUnsupported) || kept && !strings.Contains(err.Error(), "--overlay2=none") {
			t.Errorf("kept to itself: %v; commit: %v", kept, err)
		}
		if !kept {
			t.Log("this runtime is registered with --overlay2=none")
		}
	}
}
