package embedded

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/fstest"
)

func tools(t *testing.T, rec string) *Tools {
	return &Tools{dir: t.TempDir(), files: fstest.MapFS{
		"bin/wardyn-proxy": {Data: []byte("proxy")},
		"bin/wardyn-rec":   {Data: []byte(rec)},
	}}
}

func TestK30ImageIsReproducible(t *testing.T) {
	a, ida, err := tools(t, "one").Image()
	if err != nil {
		t.Fatal(err)
	}
	b, idb, _ := tools(t, "one").Image()
	if !bytes.Equal(a, b) || ida != idb {
		t.Error("equal binaries give different images")
	}
	if _, idc, _ := tools(t, "two").Image(); idc == ida {
		t.Error("different binaries give one image id")
	}
}

func TestK38RecorderPathIsContentAddressed(t *testing.T) {
	x := tools(t, "one")
	p, err := x.RecorderPath()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(p)
	if again, _ := x.RecorderPath(); again != p {
		t.Errorf("second call: %s, want %s", again, p)
	}
	if after, _ := os.Stat(p); !os.SameFile(before, after) {
		t.Error("an intact file was written again")
	}
	if before.Mode().Perm() != 0o555 {
		t.Errorf("mode %v, want 0555", before.Mode())
	}
	x.files = fstest.MapFS{"bin/wardyn-rec": {Data: []byte("two")}}
	if other, _ := x.RecorderPath(); other == p {
		t.Error("another binary has the same path")
	}
	// A damaged copy is put right by a new file, never by writing into the old one.
	x.files = fstest.MapFS{"bin/wardyn-rec": {Data: []byte("one")}}
	if err := os.Truncate(p, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := x.RecorderPath(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(p); string(b) != "one" {
		t.Errorf("damaged copy reads %q", b)
	}
}

func TestMissingBinariesSaySo(t *testing.T) {
	x := &Tools{dir: t.TempDir(), files: fstest.MapFS{}}
	if _, err := x.RecorderPath(); !errors.Is(err, ErrMissing) {
		t.Errorf("RecorderPath: %v", err)
	}
	if _, _, err := x.Image(); !errors.Is(err, ErrMissing) {
		t.Errorf("Image: %v", err)
	}
}
