package driver_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// builder is an engine in memory that keeps images.
type builder struct {
	*runnertest.Fake
	code          int // of every script
	uncommittable error
	fails         map[string]error // by call
	waiting       func()           // called as a script is waited for
	at            func(call string) error
	mu            sync.Mutex
	images        map[string]bool
	builds        int
}

func newBuilder() (*driver.Docker, *builder) {
	b := &builder{Fake: runnertest.New(runnertest.Options{}), images: map[string]bool{}}
	return driver.NewDocker(b, driver.DockerOpts{}), b
}

// reach makes every call of the engine go through at as well.
func (b *builder) reach(at func(call string) error) {
	b.at = at
	b.SetFault(func(_ context.Context, op, _ string) error { return at(op) })
}

func (b *builder) called(call string) error {
	if b.at == nil {
		return nil
	}
	return b.at(call)
}

func (b *builder) ImageID(_ context.Context, image string, _ runner.ImageSource, _ map[string]string) (string, error) {
	return "sha256:" + image, b.called("ImageID")
}

func (b *builder) OwnImagePresent(_ context.Context, ref string, _ map[string]string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.images[ref], errors.Join(b.fails["OwnImagePresent"], b.called("OwnImagePresent"))
}

func (b *builder) ListOwnImages(context.Context) (all []runner.Image, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref := range b.images {
		all = append(all, runner.Image{Ref: ref})
	}
	return all, nil
}

func (b *builder) RemoveOwnImage(_ context.Context, ref string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.images, ref)
	return nil
}

func (b *builder) Committable(context.Context, string) error {
	return errors.Join(b.uncommittable, b.called("Committable"))
}

func (b *builder) KeyedDigest(text string) string {
	h := fnv.New64()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

func (b *builder) Wait(ctx context.Context, ref string) (int, error) {
	if b.waiting != nil {
		b.waiting()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.builds++
	return b.code, errors.Join(b.fails["Wait"], b.called("Wait"), ctx.Err())
}

func (b *builder) Commit(ctx context.Context, _, tag string, _ []string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.fails["Commit"], b.called("Commit"), ctx.Err()); err != nil {
		return "", err
	}
	b.images[tag] = true
	return tag, nil
}

func aSetup() driver.SetupSpec {
	return driver.SetupSpec{
		Session: "s", Namespace: "team", Script: "apt-get install x", Env: map[string]string{"A": "1"}, Caps: []string{"CHOWN"},
		Sandbox: runner.SandboxSpec{RunID: uuid.New(), Image: "base", ConfinementClass: "CC1", Labels: map[string]string{driver.NamespaceLabel: "team"}},
	}
}

func TestD11OneBuildForAll(t *testing.T) {
	d, b := newBuilder()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := d.BuildSetup(t.Context(), aSetup()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b.builds != 1 || len(b.images) != 1 {
		t.Errorf("%d builds, %d images", b.builds, len(b.images))
	}
	if ref, found, err := d.FindSetup(t.Context(), aSetup()); !found || err != nil || !strings.HasPrefix(ref, "rainier-env:team-") {
		t.Errorf("%q, %v, %v", ref, found, err)
	}
	if left := b.Left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Bug 53: a build has the CPU of its task and no more.
func TestBug53BuildHasTheTasksCPU(t *testing.T) {
	d, b := newBuilder()
	s := aSetup()
	s.Sandbox.Task = &runner.TaskProcess{CPUShares: 100, CpusetCpus: "1", User: "1000"}
	var got runner.TaskProcess
	s.Watch = func(_ context.Context, ref string) {
		if spec, err := b.Spec(ref); err == nil {
			got = *spec.Task
		}
	}
	if _, err := d.BuildSetup(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got.CPUShares != 100 || got.CpusetCpus != "1" || got.User != "0:0" {
		t.Errorf("built with %+v", got)
	}
}

// K26: whatever shapes the result is in the hash, and nothing else.
func TestK26SetupHash(t *testing.T) {
	d, _ := newBuilder()
	seen := map[string]string{}
	for name, change := range map[string]func(*driver.SetupSpec){
		"plain":     func(*driver.SetupSpec) {},
		"script":    func(s *driver.SetupSpec) { s.Script += " " },
		"namespace": func(s *driver.SetupSpec) { s.Namespace = "other" },
		"image":     func(s *driver.SetupSpec) { s.Sandbox.Image = "other" },
		"class":     func(s *driver.SetupSpec) { s.Sandbox.ConfinementClass = "CC2" },
		"env name":  func(s *driver.SetupSpec) { s.Env = map[string]string{"B": "1"} },
		"env value": func(s *driver.SetupSpec) { s.Env = map[string]string{"A": "2"} },
		"caps":      func(s *driver.SetupSpec) { s.Caps = nil },
		"policy":    func(s *driver.SetupSpec) { s.Sandbox.ProxyConfig.Policy.AllowedDomains = []string{"a.example"} },
		"learn":     func(s *driver.SetupSpec) { s.Learn = true },
		"private":   func(s *driver.SetupSpec) { s.Private = true },
		// Scripts are bytes, of a text in any encoding.
		"no text":       func(s *driver.SetupSpec) { s.Script += "\xe4" },
		"other no text": func(s *driver.SetupSpec) { s.Script += "\xfc" },
		"env no text":   func(s *driver.SetupSpec) { s.Env = map[string]string{"A": "\xe4"} },
		"another":       func(s *driver.SetupSpec) { s.Env = map[string]string{"A": "\xfc"} },
	} {
		s := aSetup()
		change(&s)
		ref, _, err := d.FindSetup(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if other, dup := seen[ref]; dup {
			t.Errorf("%s and %s share %s", name, other, ref)
		}
		seen[ref] = name
	}
	again := aSetup()
	again.Session, again.Timeout, again.Sandbox.Resources.MemoryMiB = "another", 5, 64
	if ref, _, _ := d.FindSetup(t.Context(), again); seen[ref] != "plain" {
		t.Error("who runs it and with what is in the hash")
	}
}

func TestD11FailedBuildsAreNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		trap  error
		fault string
	}{
		"script": {code: 120}, "gVisor": {trap: runner.ErrUnsupported}, "create": {fault: "CreateSandbox"}, "start": {fault: "Exec"},
	} {
		d, b := newBuilder()
		b.code, b.uncommittable = c.code, c.trap
		broken := errors.New("broken")
		b.SetFault(func(_ context.Context, op, _ string) error {
			if op == c.fault {
				return broken
			}
			return nil
		})
		_, err := d.BuildSetup(t.Context(), aSetup())
		var script *driver.SetupError
		if err == nil || (c.code != 0) != errors.As(err, &script) {
			t.Errorf("%s: %v", name, err)
		}
		b.SetFault(nil)
		if used, _, _ := d.Capacity(t.Context()); len(b.images) != 0 || len(b.Left()) != 0 || used != 0 {
			t.Errorf("%s: images %v, left %v, %d slots", name, b.images, b.Left(), used)
		}
	}
}

// D-11: whatever fails, and wherever, leaves no image, sandbox or slot, and
// the next build of the same image begins anew.
func TestD11FaultsAtEveryStage(t *testing.T) {
	full := errors.New("no space left on device")
	for _, stage := range []string{
		"ImageID", "OwnImagePresent", "ListSandboxes", "CreateSandbox", "Exec", "Committable", "Wait", "Commit",
	} {
		for name, want := range map[string]error{
			"engine away": runner.ErrUnavailable, "disk full": full, "late": context.DeadlineExceeded, "stopped": context.Canceled,
		} {
			t.Run(stage+" "+name, func(t *testing.T) {
				d, b := newBuilder()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				reached := false
				b.reach(func(call string) error {
					if call != stage {
						return nil
					}
					if reached = true; errors.Is(want, context.Canceled) {
						cancel() // the caller leaves, which is what the engine's call ends with
					}
					return want
				})
				if _, err := d.BuildSetup(ctx, aSetup()); !errors.Is(err, want) || !reached {
					t.Errorf("%v, want %v; reached: %v", err, want, reached)
				}
				b.reach(func(string) error { return nil })
				if used, _, _ := d.Capacity(t.Context()); len(b.images) != 0 || len(b.Left()) != 0 || used != 0 {
					t.Errorf("images %v, left %v, %d slots", b.images, b.Left(), used)
				}
				if _, err := d.BuildSetup(t.Context(), aSetup()); err != nil || len(b.images) != 1 {
					t.Errorf("the next: %v, images %v", err, b.images)
				}
			})
		}
	}
}

// D-11: a build whose sandbox cannot be taken down says so. What it has made is
// whole, and the next has it.
func TestD11SandboxOfABuildThatStays(t *testing.T) {
	d, b := newBuilder()
	b.reach(func(call string) error {
		if call == "KillSandbox" {
			return runner.ErrUnavailable
		}
		return nil
	})
	if _, err := d.BuildSetup(t.Context(), aSetup()); !errors.Is(err, runner.ErrUnavailable) || len(b.Left()) == 0 {
		t.Errorf("%v, left %v", err, b.Left())
	}
	if _, found, err := d.FindSetup(t.Context(), aSetup()); !found || err != nil {
		t.Errorf("found: %v, %v", found, err)
	}
}

// One that fails gives those who wait their own turn, and not its error.
func TestD11WaitersOfAFailedBuildBuild(t *testing.T) {
	d, b := newBuilder()
	b.fails = map[string]error{"Commit": errors.New("broken")}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := d.BuildSetup(t.Context(), aSetup()); err == nil {
				t.Error("it succeeded")
			}
		})
	}
	all.Wait()
	if b.builds != 3 {
		t.Errorf("%d builds for three who asked", b.builds)
	}
}

// A watch is told whose script runs, and is over before that is taken down.
func TestD11WatchEndsBeforeTheSandbox(t *testing.T) {
	d, b := newBuilder()
	told, over := make(chan string, 1), false
	s := aSetup()
	s.Watch = func(ctx context.Context, ref string) {
		told <- ref
		<-ctx.Done()
		over = true
	}
	b.waiting = func() { <-told }
	b.SetFault(func(_ context.Context, op, ref string) error {
		if op == "KillSandbox" && (!over || ref != runnertest.Ref(s.Sandbox.RunID)) {
			t.Errorf("%s is taken down, and its watch is over: %v", ref, over)
		}
		return nil
	})
	if _, err := d.BuildSetup(t.Context(), s); err != nil || !over {
		t.Errorf("%v, over: %v", err, over)
	}
}

// K37, D-11: what a script made is kept only when nobody objects to it.
func TestD11ObjectionKeepsNothing(t *testing.T) {
	d, b := newBuilder()
	objection, asked := errors.New("too large"), ""
	s := aSetup()
	s.Through = func(_ context.Context, ref string) error { asked = ref; return objection }
	if _, err := d.BuildSetup(t.Context(), s); !errors.Is(err, objection) || asked != runnertest.Ref(s.Sandbox.RunID) || len(b.images) != 0 {
		t.Errorf("%v, asked about %q, images %v", err, asked, b.images)
	}
	s.Through = func(context.Context, string) error { return nil }
	if ref, err := d.BuildSetup(t.Context(), s); err != nil || !b.images[ref] {
		t.Errorf("%s, %v", ref, err)
	}
}

// D-11: an image that is one run's alone is dropped by the run, also by a process
// that has not made it; no other run's and nobody's cache goes with it.
func TestD11PrivateImagesAreDroppedByTheirRun(t *testing.T) {
	d, b := newBuilder()
	kept, mine, others := aSetup(), aSetup(), aSetup()
	mine.Private, others.Private = true, true
	var refs []string
	for _, s := range []driver.SetupSpec{kept, mine, others} {
		ref, err := d.BuildSetup(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	next := driver.NewDocker(b, driver.DockerOpts{})
	for range 2 { // one that is gone is no fault
		if err := next.DropPrivate(t.Context(), mine.Sandbox.RunID); err != nil {
			t.Error(err)
		}
		if !b.images[refs[0]] || b.images[refs[1]] || !b.images[refs[2]] {
			t.Errorf("left of %v: %v", refs, b.images)
		}
	}
}
