package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

func TestK31FolderForFiles(t *testing.T) {
	base := t.TempDir()
	mk := func(name string, mode os.FileMode) string {
		p := filepath.Join(base, name)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, link, file := mk("good", 0o700), filepath.Join(base, "link"), filepath.Join(base, "file")
	foreign := mk("foreign", 0o700)
	if os.Geteuid() != 0 {
		t.Skip("a folder that is someone else's takes root")
	}
	if err := os.Chown(foreign, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		good: "", filepath.Join(base, "new"): "",
		link: "is a link", file: "not a directory", foreign: "someone else", mk("open", 0o755): "0755",
		filepath.Join(base, "a", "b"): "no such file", "relative": "absolute",
	} {
		j, err := openJournal(p, uuid.New(), 0)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", p, err, want)
		}
		j.close()
	}
}

// What a job's artifact could have planted where our files go.
func TestK31PlantedFiles(t *testing.T) {
	for name, plant := range map[string]func(target, p string) error{
		"a link":      os.Symlink,
		"a hard link": os.Link,
		"a pipe":      func(_, p string) error { return syscall.Mkfifo(p, 0o600) },
		"a folder":    func(_, p string) error { return os.Mkdir(p, 0o700) },
	} {
		for _, file := range []string{journalName, olderName} {
			dir := filesDir(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(filepath.Dir(dir), "target")
			if err := os.WriteFile(target, []byte("precious\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(target, filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			j, err := openJournal(dir, uuid.New(), 0)
			if err == nil {
				t.Errorf("%s as %s was opened", name, file)
				j.close()
			}
			if b, _ := os.ReadFile(target); string(b) != "precious\n" {
				t.Errorf("%s as %s: the target now holds %q", name, file, b)
			}
		}
	}
}

func TestPrepareThatFailsLeavesNothingKnown(t *testing.T) {
	b := newBench(t)
	if err := b.Prepare(Run{ID: uuid.New(), FilesDir: "relative"}); err == nil {
		t.Error("prepared")
	}
	if err := b.Prepare(Run{}); err == nil {
		t.Error("a run without an id was prepared")
	}
	if runs := b.Runs(); len(runs) != 0 {
		t.Errorf("known runs %v", runs)
	}
}

// What a job has planted where a file of ours is written first is taken away: a
// link to another of our files, or a pipe that nobody reads.
func TestReplacingAFileFollowsNothingPlanted(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := taskpath.OpenRecords(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	records := filepath.Join(dir, journalName)
	planted := filepath.Join(dir, "."+approvalsName+".new")
	for name, plant := range map[string]func() error{
		"link": func() error { return os.Symlink(journalName, planted) },
		"pipe": func() error { return syscall.Mkfifo(planted, 0o600) },
		"file": func() error { return os.Link(records, planted) },
	} {
		if err := errors.Join(os.WriteFile(records, []byte("evidence"), 0o600), plant()); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(root, approvalsName, []byte(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, _ := os.ReadFile(filepath.Join(dir, approvalsName))
		kept, _ := os.ReadFile(records)
		if string(got) != name || string(kept) != "evidence" {
			t.Errorf("%s: approvals %q, records %q", name, got, kept)
		}
	}
}
