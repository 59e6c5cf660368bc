package cast

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
