package runner

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestK35Devices: what is at a device's path counts, not what it is called.
func TestK35Devices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making device nodes takes root")
	}
	dir := t.TempDir()
	node := func(name string, kind, major, minor uint32) string {
		p := filepath.Join(dir, name)
		if err := unix.Mknod(p, kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
			t.Fatal(err)
		}
		return p
	}
	link := func(name, to string) string {
		p := filepath.Join(dir, name)
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	disk, mem := node("by-id", unix.S_IFBLK, 7, 250), node("looks-fine", unix.S_IFCHR, 1, 1)
	for _, c := range []struct {
		path string
		want error
	}{
		{"/dev/null", nil},
		{link("zero", "/dev/zero"), nil},
		{disk, ErrDenied},
		{link("to-disk", disk), ErrDenied},
		{mem, ErrDenied},
		{link("to-mem", mem), ErrDenied},
		{node("kmsg", unix.S_IFCHR, 1, 11), ErrDenied},
		{dir, ErrInvalid},
		{filepath.Join(dir, "none"), ErrInvalid},
		{link("nowhere", "/dev/none/at/all"), ErrInvalid},
	} {
		if err := ValidateDevice(c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
	}
}
