package castfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

func events(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := cast.Read(f, func(e cast.Event) error {
		out = append(out, e.Kind+" "+e.Data)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// W14: the file has a bound; its beginning and its end are kept, what lies
// between is counted, and memory holds no more than the end.
func TestW14Bound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.cast")
	const limit = 64 << 10
	f, err := Create(path, true, 80, 24, limit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		f.Output(0, fmt.Appendf(nil, "<%d>%s", i, strings.Repeat("x", 100)))
	}
	if got := cap(f.end.list); got > 2000 {
		t.Errorf("%d events are held", got)
	}
	if err := f.Close("exit 0"); err != nil {
		t.Fatal(err)
	}
	got := events(t, path)
	fi, err := os.Stat(path)
	if err != nil || fi.Size() > limit+1<<10 {
		t.Errorf("%d bytes, %v", fi.Size(), err)
	}
	n := len(got)
	if !strings.HasPrefix(got[0], "o <0>") || !strings.HasPrefix(got[n-2], "o <1999>") || got[n-1] != "m exit 0" {
		t.Errorf("%q ... %q", got[0], got[n-2:])
	}
	missing := 0
	for _, e := range got {
		if strings.HasPrefix(e, "m the recording is longer") {
			missing++
		}
	}
	if missing != 1 {
		t.Errorf("%d markers of what is missing", missing)
	}
}

// A recording within its bound is whole, to the last byte of it.
func TestWithinTheBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.cast")
	f, err := Create(path, false, 80, 24, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	f.Output(0, []byte("a\n\xe2\x82"))
	f.Output(1, []byte("err\n"))
	f.Output(0, []byte("\xacz"))
	f.Input([]byte("in"))
	f.Resize(100, 30)
	if err := f.Close("exit 1"); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(events(t, path)), "[o a\r\n o err\r\n o €z i in r 100x30 m exit 1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A disk that is full costs what comes then, and is told of at the end.
func TestCannotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.cast")
	f, err := Create(path, true, 80, 24, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	f.f.Close()
	f.f, _ = os.Open(path)
	f.Output(0, []byte("lost"))
	if f.Close("exit 0") == nil {
		t.Error("nothing is said of it")
	}
	if got := events(t, path); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
