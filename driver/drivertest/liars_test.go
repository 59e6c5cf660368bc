package drivertest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/driver/drivertest"
)

// lieEnv makes this test binary run the suite over a driver with one fault.
const lieEnv = "WARDYN_TEST_LIE"

// liar is the Fake with one promise broken.
type liar struct {
	*driver.Fake
	lie string
	ids map[string]string // session by id
}

func (l *liar) Create(ctx context.Context, s driver.Spec) (driver.Handle, error) {
	h, err := l.Fake.Create(ctx, s)
	l.ids[h.ID] = s.SessionID
	if l.lie == "D6 says running and is suspended" {
		l.Fake.Suspend(ctx, h.ID, true)
	}
	return h, err
}

func (l *liar) DestroyContainer(ctx context.Context, id string) error {
	err := l.Fake.DestroyContainer(ctx, id)
	if l.lie == "D48 a crash takes the workspace" {
		err = l.Fake.RemoveWorkspace(ctx, l.ids[id])
	}
	return err
}

func (l *liar) Suspend(ctx context.Context, id string, warm bool) error {
	return l.Fake.Suspend(ctx, id, warm || l.lie == "D33 a parked one keeps its slot")
}

func (l *liar) Destroy(ctx context.Context, id string) error {
	if l.lie == "D46 the workspace stays" {
		return l.Fake.DestroyContainer(ctx, id)
	}
	return l.Fake.Destroy(ctx, id)
}

func (l *liar) Inspect(ctx context.Context, id string) (driver.Handle, error) {
	h, err := l.Fake.Inspect(ctx, id)
	if l.lie == "D6 never gone" && h.State == driver.StateGone {
		h.State = driver.StateSuspended
	}
	return h, err
}

func (l *liar) Snapshot(ctx context.Context, id, ref string, strip []string) (driver.Snapshot, error) {
	switch l.lie {
	case "D37 decorates the ref":
		s, err := l.Fake.Snapshot(ctx, id, ref, strip)
		s.Ref += "-1"
		return s, err
	case "D38 mints one ref":
		return driver.Snapshot{Ref: "always"}, nil
	case "D40 takes any name":
		return l.Fake.Snapshot(ctx, id, ref, nil)
	}
	return l.Fake.Snapshot(ctx, id, ref, strip)
}

func (l *liar) List(ctx context.Context) ([]driver.Listed, error) {
	all, err := l.Fake.List(ctx)
	if l.lie == "D34 leaves the parked out" {
		var some []driver.Listed
		for _, e := range all {
			if e.Handle.State == driver.StateRunning {
				some = append(some, e)
			}
		}
		return some, err
	}
	return all, err
}

var lies = []string{
	"D6 never gone", "D6 says running and is suspended", "D33 a parked one keeps its slot", "D34 leaves the parked out",
	"D37 decorates the ref", "D38 mints one ref", "D40 takes any name", "D46 the workspace stays", "D48 a crash takes the workspace",
}

// TestLiar is the suite over a liar, in a process of its own.
func TestLiar(t *testing.T) {
	lie := os.Getenv(lieEnv)
	if lie == "" {
		return // TestLiesAreFound runs it, in a process of its own
	}
	drivertest.Run(t, func(_ *testing.T, slots int) drivertest.Subject {
		f := driver.NewFake(slots)
		return drivertest.Subject{Driver: &liar{f, lie, map[string]string{}}, Volumes: f.Volumes}
	})
}

// TestLiesAreFound (D57): each broken promise makes the suite fail, in the
// check that names it; an honest driver passes.
func TestLiesAreFound(t *testing.T) {
	for _, lie := range append(lies, "none") {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLiar$")
		cmd.Env = append(os.Environ(), lieEnv+"="+lie)
		out, err := cmd.CombinedOutput()
		number, _, _ := strings.Cut(lie, " ")
		switch {
		case lie == "none" && err != nil:
			t.Errorf("an honest driver fails: %v\n%s", err, out)
		case lie != "none" && (err == nil || !strings.Contains(string(out), number)):
			t.Errorf("%s: not found out: %v\n%s", lie, err, out)
		}
	}
}
