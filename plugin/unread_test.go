package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// K8: a log that nobody reads is told from one that takes more, from a file and
// from nothing.
func TestK8PipeFull(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if pipeFull(fifo) || pipeFull(file) || pipeFull(filepath.Join(dir, "none")) {
		t.Error("full without a reader, or none at all")
	}
	fd, err := unix.Open(fifo, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if pipeFull(fifo) {
		t.Error("full while it is empty")
	}
	page := make([]byte, 4096)
	for err = nil; err == nil; {
		_, err = unix.Write(fd, page)
	}
	if !pipeFull(fifo) {
		t.Errorf("not full after %v", err)
	}
	if _, err := unix.Read(fd, page); err != nil || pipeFull(fifo) {
		t.Errorf("full after a read: %v", err)
	}
}
