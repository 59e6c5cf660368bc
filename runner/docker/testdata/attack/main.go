// Attack tries, from inside a sandbox, what would widen it, and prints one line
// for each try with what came of it.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread()
	try("packet socket", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW)
	try("raw socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	try("tcp socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
	reconfigure()
	fmt.Printf("init's environment: %s\n", readable("/proc/1/environ"))
	fmt.Printf("init's memory: %s\n", readable("/proc/1/mem"))
	fmt.Printf("hold on init: %s\n", trace())
	for _, name := range []string{"LD_PRELOAD", "NOMAD_TOKEN", "VAULT_TOKEN", "RAINIER_SETUP_B64", "WARDYN_RUN_TOKEN"} {
		value, set := os.LookupEnv(name)
		if !set {
			value = "unset"
		}
		fmt.Printf("%s: %s\n", name, value)
	}
	// Last, since it may come about; in a process of one thread, as it must.
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	fmt.Printf("user namespace: %v\n", errno)
}

func try(name string, call uintptr, args ...uintptr) {
	args = append(args, 0, 0, 0)
	_, _, errno := syscall.RawSyscall(call, args[0], args[1], args[2])
	fmt.Printf("%s: %v\n", name, errno)
}

// readable says whether a file of pid 1 can be read.
func readable(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "refused"
	}
	defer f.Close()
	b := make([]byte, 1)
	if n, _ := f.Read(b); n == 0 && !mapped(f, b) {
		return "refused"
	}
	return "read"
}

// mapped tries a file of memory at addresses that static programs have.
func mapped(f *os.File, b []byte) bool {
	for _, at := range []int64{0x400000, 0x10000} {
		if n, _ := f.ReadAt(b, at); n > 0 {
			return true
		}
	}
	return false
}

func trace() string {
	if err := unix.PtraceSeize(1); err != nil {
		return "refused"
	}
	return "given"
}
