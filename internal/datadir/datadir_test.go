package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
)

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(d.RunRoot()); err != nil {
			t.Error(err)
		}
		if err := d.RemoveRunRoot(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestK3InstanceIsStableAndPrivate(t *testing.T) {
	a := open(t)
	again, err := Open(a.Path())
	if err != nil {
		t.Fatal(err)
	}
	if a.Instance() != again.Instance() || !again.ProofHolds("x", a.Proof("x")) {
		t.Error("a second Open is another instance")
	}
	b := open(t)
	if a.Instance() == b.Instance() || b.ProofHolds("x", a.Proof("x")) {
		t.Error("two data dirs share an identity")
	}
	if a.ProofHolds("y", a.Proof("x")) {
		t.Error("the proof of one name holds for another")
	}
}

func TestK38DataDirRefusals(t *testing.T) {
	tmp := t.TempDir()
	wide := filepath.Join(tmp, "wide")
	if err := os.Mkdir(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(tmp, "link")
	if err := os.Symlink(wide, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{wide, link, file, "relative", tmp + "/a/../b"} {
		if _, err := Open(p); err == nil {
			t.Errorf("Open(%q) succeeded", p)
		}
	}
}

func TestRecords(t *testing.T) {
	d := open(t)
	r := Record{RunID: uuid.New(), CreatedAt: time.Now().UTC().Truncate(time.Second), Image: "i", Subnet: "10.213.0.0/29"}
	if err := d.SaveRecord(r); err != nil {
		t.Fatal(err)
	}
	all, err := d.Records()
	if err != nil || len(all) != 1 || all[0].RunID != r.RunID || all[0].Subnet != r.Subnet {
		t.Fatalf("Records() = %v, %v", all, err)
	}
	if err := errors.Join(d.RemoveRecord(r.RunID), d.RemoveRecord(r.RunID)); err != nil {
		t.Error(err)
	}
	if _, err := d.LoadRecord(r.RunID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadRecord after removal: %v", err)
	}
}

func TestK22RunDirIsRootOnly(t *testing.T) {
	d := open(t)
	id := uuid.New()
	p, err := d.MakeRunDir(id, "control")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []string{p, filepath.Join(p, "control")} {
		fi, err := os.Stat(x)
		if err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", x, fi.Mode(), err)
		}
	}
	if err := d.RemoveRunDir(id); err != nil {
		t.Error(err)
	}
}
