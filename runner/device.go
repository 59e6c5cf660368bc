package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// memoryMajor is the kernel's number for devices of its memory, and
// memoryMinors the ones that hand it over: mem, kmem, port and kmsg.
const memoryMajor = 1

var memoryMinors = []uint32{1, 2, 4, 11}

// ValidateDevice decides whether what is at a path can be a device of a sandbox,
// wherever links lead from there: one device, no disk and none of the host's
// memory. A folder is refused, because an engine hands over all that is in it.
func ValidateDevice(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such device on this node: %w", ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("device %s: %w: %w", path, ErrInvalid, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(real, &st); err != nil {
		return fmt.Errorf("device %s: %w", path, &os.PathError{Op: "lstat", Path: real, Err: err})
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		if unix.Major(uint64(st.Rdev)) == memoryMajor && slices.Contains(memoryMinors, unix.Minor(uint64(st.Rdev))) {
			return fmt.Errorf("it is the host's memory: %w", ErrDenied)
		}
		return nil
	case unix.S_IFBLK:
		return fmt.Errorf("it is a disk of the host's: %w", ErrDenied)
	}
	return fmt.Errorf("%s is no device: name one: %w", real, ErrInvalid)
}
