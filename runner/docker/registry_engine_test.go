package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker/regauth"
)

func (w *world) dropName(t *testing.T, ref string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.ImageRemove(ctx, ref); err != nil {
		t.Error(err)
	}
}

// K30, bugs 18, 23, 24: a registry with passwords. Credentials come from the
// task, from a file and from a helper; without them nothing is had, neither by
// a pull nor off the node; and no password is in an error.
func TestK30RegistryWithCredentials(t *testing.T) {
	w := newWorld(t)
	ref := testenv.Push(t, testenv.Registry(t, true))
	none := runner.ImageSource{}
	mine := func(password string) runner.ImageSource {
		return runner.ImageSource{Auth: &runner.RegistryAuth{Username: testenv.RegistryUser, Password: password}}
	}
	soft := mine("wrong-Pw")
	soft.AuthSoftFail = true
	get := func(src runner.ImageSource) error {
		_, err := w.ensureImage(t.Context(), ref, src)
		if err != nil && (strings.Contains(err.Error(), testenv.RegistryPassword) || strings.Contains(err.Error(), "wrong-Pw")) {
			t.Errorf("a password shows: %v", err)
		}
		return err
	}
	refused := func(when string) {
		t.Helper()
		for name, src := range map[string]runner.ImageSource{"none": none, "wrong": mine("wrong-Pw"), "wrong, soft": soft} {
			if err := get(src); !errors.Is(err, runner.ErrDenied) {
				t.Errorf("%s, credentials %s: %v", when, name, err)
			}
		}
	}
	refused("absent")
	var h heard
	good := mine(testenv.RegistryPassword)
	good.Notify = h.tell
	if err := get(good); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(h.all(), "Pulling image "+ref) {
		t.Errorf("told: %s", h.all())
	}
	refused("present")
	if err := get(good); err != nil {
		t.Errorf("present, with the credentials: %v", err)
	}
	again := good
	again.Always = true
	if err := get(again); err != nil {
		t.Errorf("force_pull: %v", err)
	}
	w.hostCredentials(t, ref)
}

// hostCredentials: the operator's file and helper stand in for a task's own.
func (w *world) hostCredentials(t *testing.T, ref string) {
	host, _, _ := strings.Cut(ref, "/")
	dir := t.TempDir()
	helper := "#!/bin/sh\nread host\ncase $1 in get) [ \"$host\" = " + host + " ] && echo '{\"ServerURL\":\"" + host +
		"\",\"Username\":\"" + testenv.RegistryUser + "\",\"Secret\":\"" + testenv.RegistryPassword + "\"}' || { echo credentials not found in native keychain; exit 1; };; esac\n"
	for name, text := range map[string]string{
		"plain.json": `{"auths":{"` + host + `":{"auth":"dGVzdGVyOnNlY3JldC1Qdw=="}}}`,
		"named.json": `{"credHelpers":{"` + host + `":"wardyntest"}}`,
		"other.json": `{"auths":{"elsewhere.example.org":{"auth":"dGVzdGVyOnNlY3JldC1Qdw=="}}}`,
		"bad.json":   `{"auths":"secret-Pw`, "docker-credential-wardyntest": helper,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(n string) string { return filepath.Join(dir, n) }
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for name, c := range map[string]struct {
		from regauth.Source
		want string // "" is given
	}{
		"file":                  {regauth.Source{File: file("plain.json")}, ""},
		"helper":                {regauth.Source{Helper: "wardyntest"}, ""},
		"file names a helper":   {regauth.Source{File: file("named.json")}, ""},
		"file, then helper":     {regauth.Source{File: file("other.json"), Helper: "wardyntest"}, ""},
		"file without the host": {regauth.Source{File: file("other.json")}, "credentials"},
		"broken file":           {regauth.Source{File: file("bad.json")}, "config.json"},
		"no file":               {regauth.Source{File: file("none.json")}, "none.json"},
		"no helper":             {regauth.Source{Helper: "nowhere"}, "docker-credential-nowhere is not in the PATH of the Nomad agent, " + dir},
	} {
		w.opts.Images.Auth, w.admitted.at = c.from, nil
		_, err := w.ensureImage(t.Context(), ref, runner.ImageSource{})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), testenv.RegistryPassword)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	w.opts.Images.Auth = regauth.Source{}
}

// Bug 21, image events, and an image that vanishes between its pull and the
// create: a sandbox of a pulled image, twice, then its clean-up.
func TestPulledImageRunsVanishesAndIsCleanedUp(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	ref := testenv.Push(t, testenv.Registry(t, false))
	var h heard
	spec := specFor(t, "runc")
	spec.Image = ref
	spec.Task.Image.Notify = h.tell
	p, err := w.prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(h.all(), "Image "+ref+" is "+strings.TrimSuffix(ref, ":1")+"@sha256:") {
		t.Errorf("told: %s", h.all())
	}
	p.releaseImage()
	w.dropName(t, ref)
	b := &build{Runner: w.Runner, plan: p}
	if err := b.withImage(t.Context(), &b.plan); err != nil || b.image.ID != p.image.ID {
		t.Fatalf("a vanished image: %v", err)
	}
	b.releaseImage()
	w.startedSandbox(t, spec)
	w.opts.Images.KeepUnused = time.Millisecond
	collect := func() bool {
		if err := w.collectImages(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		ok, err := w.ImagePresent(t.Context(), ref)
		if err != nil {
			t.Error(err)
		}
		return ok
	}
	if !collect() {
		t.Error("removed while a sandbox uses it")
	}
	if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
		t.Fatal(err)
	}
	if collect() {
		t.Error("an unused image stays")
	}
}

// K30: a loaded archive moves no tag of the node, runs by its id, and goes
// with the clean-up.
func TestK30LoadedArchiveRuns(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	name := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"echo", "from the archive"}, Labels: map[string]string{"test": uuid.NewString()}})
	before, err := w.inspectImage(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := w.cl.ImageSave(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, rc); err != nil {
		t.Fatal(err)
	}
	rc.Close()
	w.dropName(t, name)
	out := newCollector()
	spec := specFor(t, "runc")
	spec.Image = name
	spec.Task = &runner.TaskProcess{Output: out, Image: runner.ImageSource{Archive: f}}
	ref := w.startedSandbox(t, spec)
	if code, err := w.Wait(soon(t), ref); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if got, _ := out.streams(t); got != "from the archive\n" {
		t.Errorf("output %q", got)
	}
	if ok, err := w.ImagePresent(t.Context(), name); ok || err != nil {
		t.Errorf("the archive's own name is on the node: %v", err)
	}
	after, err := w.inspectImage(t.Context(), before.ID)
	if err != nil || len(after.Names) != 1 || !strings.HasPrefix(after.Names[0], loadedPrefix) {
		t.Errorf("names %q, %v", after.Names, err)
	}
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	w.opts.Images.KeepUnused = time.Millisecond
	if err := w.collectImages(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if ok, _ := w.ImagePresent(t.Context(), before.ID); ok {
		t.Error("the loaded image stays")
	}
}
