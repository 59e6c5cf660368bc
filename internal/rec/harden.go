package rec

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// harden shuts this process, and with it every program it starts, off from
// what no task needs. It runs before anything of the task's does.
//
// The task has the same user as we do: not dumpable, we cannot be traced, and
// our memory cannot be read or written through /proc. A program that is
// started later can be again.
//
// Where the engine has put a filter of system calls over us, that is the one.
// gVisor takes none from the engine, so there we bring our own.
func harden() error {
	closeOnExec() // it may need what a process that is not dumpable has lost
	if err := insideRoot(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot shut our memory: %w", err)
	}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) || mode != 0 {
		return nil // a kernel without filters, or one is there
	}
	if err != nil {
		return fmt.Errorf("cannot ask for the filter of system calls: %w", err)
	}
	arch, known := auditArch[runtime.GOARCH]
	if !known {
		return fmt.Errorf("no filter of system calls is known for %s", runtime.GOARCH)
	}
	return install(compile(arch, rules))
}

// insideRoot refuses to go on from a working directory that lies outside our
// root. An image can lead there by a link, where a runtime still has a folder
// of the host's open as it changes into that directory; everything we start
// would begin in it.
func insideRoot() error {
	var b [unix.PathMax]byte
	n, err := unix.Getcwd(b[:])
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ERANGE):
		return nil // removed meanwhile, or deeper than a path can say: inside
	case err != nil:
		return fmt.Errorf("cannot tell where the working directory is: %w", err)
	case n == 0 || b[0] != '/': // the kernel writes "(unreachable)" before those
		return errors.New("the working directory lies outside the sandbox's root; set work_dir")
	}
	return nil
}

// install puts a filter over every thread of this process.
func install(program []unix.SockFilter) error {
	// The engine has done this already; without it a filter is refused.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give privileges up: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("cannot install the filter of system calls: %w", errno)
	}
	return nil
}
