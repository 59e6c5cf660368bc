package cast

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A recording keeps its beginning and its end within its bound, and says what
// is missing.
func TestK36Bound(t *testing.T) {
	c := newClock()
	o := options(t, c)
	o.Limit = LeastLimit
	r := open(t, o)
	chunk := bytes.Repeat([]byte("x"), 15<<10)
	for i := range 300 {
		must(t, r.Output(0, append(fmt.Appendf(nil, "<%d>", i), chunk...)))
		if i == 150 { // another recorder goes on where this one was
			r = open(t, o)
		}
	}
	must(t, r.Close("exit 0"))
	list, err := List(o.Dir, "run")
	must(t, err)
	if len(list) != 1 || len(list[0].Parts) != keptParts || list[0].Bytes > o.Limit || list[0].End != "exit 0" {
		t.Fatalf("%+v", list)
	}
	parts := list[0].Parts
	if _, got := content(t, o, 1); !strings.HasPrefix(got[0], `0s o "<0>`) || got[len(got)-1] != `0s m "continued in run.2.cast"` {
		t.Errorf("first part: %.40q ... %q", got[0], got[len(got)-1])
	}
	_, last := content(t, o, parts[2])
	if want := fmt.Sprintf("0s m %q", dropped(parts[1]-1)); last[0] != want || !strings.Contains(last[len(last)-2], "<299>") {
		t.Errorf("last part begins %.90q", last[0])
	}
}

// What cannot be written is counted, and said once writing works again.
func TestK36DiskThatIsFull(t *testing.T) {
	c := newClock()
	o := options(t, c)
	r := open(t, o)
	must(t, r.Output(0, []byte("one")))
	good := r.f
	r.f, _ = os.Open(good.Name()) // takes no writes
	if r.Output(0, []byte("two")) == nil || r.Output(0, []byte("three")) == nil {
		t.Error("no error")
	}
	r.f.Close()
	r.f = good
	must(t, r.Output(0, []byte("four")), r.Close(""))
	_, got := content(t, o, 1)
	if want := []string{`0s o "one"`, `0s m "8 bytes could not be recorded"`, `0s o "four"`}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A part that the disk had no room to begin is begun when there is: no event
// stands in a file without a first line, where nobody could read it.
func TestK36DiskThatIsFullAtATurn(t *testing.T) {
	c := newClock()
	o := options(t, c)
	o.Limit = LeastLimit
	fill := smallDisk(t, o.Dir, 2*int(o.Limit)/keptParts)
	r := open(t, o)
	chunk := bytes.Repeat([]byte("x"), 15<<10)
	for r.size+int64(len(chunk))+256 <= o.Limit/keptParts {
		must(t, r.Output(0, chunk))
	}
	room := fill()
	for range 3 {
		if r.Output(0, chunk) == nil {
			t.Error("no error")
		}
	}
	if parts, err := partsOf(r.dir, o.Name); err != nil || !slices.Equal(parts, []int{1}) {
		t.Errorf("parts %v, %v", parts, err)
	}
	room()
	must(t, r.Output(0, append([]byte("room again"), chunk...)), r.Close("exit 0"))
	_, first := content(t, o, 1)
	lost := fmt.Sprintf(`0s m "%d bytes could not be recorded"`, len(chunk))
	if last := first[len(first)-4:]; !slices.Equal(last, []string{lost, lost, lost, `0s m "continued in run.2.cast"`}) {
		t.Errorf("the first part ends %.90q", last)
	}
	if _, got := content(t, o, 2); len(got) != 2 || !strings.HasPrefix(got[0], `0s o "room again`) || got[1] != `0s m "exit 0"` {
		t.Errorf("the second: %.90q", got)
	}
}

// smallDisk puts a file system of size bytes at dir. What it returns takes all
// that is left, and what that returns gives it back.
func smallDisk(t *testing.T, dir string, size int) (fill func() (room func())) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system takes root")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("a file system of the test's own: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return func() func() {
		ballast := filepath.Join(dir, "ballast")
		f, err := os.Create(ballast)
		must(t, err)
		defer f.Close()
		block := make([]byte, 4<<10)
		for {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		return func() { must(t, os.Remove(ballast)) }
	}
}

// A recorder that died before it removed what is over the bound has not made the
// bound larger.
func TestK36BoundAfterADeathAtATurn(t *testing.T) {
	o := options(t, newClock())
	o.Limit = LeastLimit
	r := open(t, o)
	chunk := bytes.Repeat([]byte("x"), 15<<10)
	for r.part < 4 {
		must(t, r.Output(0, chunk))
	}
	// Part 2 was removed as the fourth began; a recorder that died has not.
	must(t, os.WriteFile(filepath.Join(o.Dir, partName(o.Name, 2)), chunk, 0o600))
	for r.part < 6 {
		must(t, r.Output(0, chunk))
	}
	must(t, r.Close(""))
	if parts, err := List(o.Dir, o.Name); err != nil || len(parts) != 1 || !slices.Equal(parts[0].Parts, []int{1, 5, 6}) {
		t.Errorf("%+v, %v", parts, err)
	}
}

// A job that plants something in the recording's place gets nothing written there.
func TestK36PlantedFiles(t *testing.T) {
	o := options(t, newClock())
	must(t, os.Mkdir(o.Dir, 0o700))
	elsewhere := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(elsewhere, nil, 0o600), os.Symlink(elsewhere, filepath.Join(o.Dir, "run.cast")))
	if _, err := Open(o); err == nil {
		t.Error("a link was followed")
	}
	must(t, os.Chmod(o.Dir, 0o755))
	if _, err := Open(o); err == nil {
		t.Error("a folder that others may read was used")
	}
}

func TestNamesOfParts(t *testing.T) {
	for file, want := range map[string]string{
		"a.cast": "a 1", "a.2.cast": "a 2", "a.10.cast": "a 10", "a.1.cast": "a.1 1", "a.02.cast": "a.02 1", "b.exec-x.3.cast": "b.exec-x 3",
	} {
		name, part, ok := splitName(file)
		if got := fmt.Sprint(name, " ", part); !ok || got != want {
			t.Errorf("%s: %s", file, got)
		}
		if file != partName(name, part) {
			t.Errorf("%s becomes %s", file, partName(name, part))
		}
	}
	for _, file := range []string{"decisions.jsonl", ".cast", "cast"} {
		if _, _, ok := splitName(file); ok {
			t.Errorf("%s is a recording", file)
		}
	}
}
