package rec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attackEnv makes this test binary try what a task has no use for.
const attackEnv = "WARDYN_TEST_ATTACK"

// attack prints one line for each try, with what came of it.
func attack() {
	runtime.LockOSThread()
	try := func(name string, call uintptr, args ...uintptr) {
		args = append(args, 0, 0, 0)
		_, _, errno := syscall.RawSyscall(call, args[0], args[1], args[2])
		fmt.Printf("%s: %v\n", name, errno)
	}
	try("user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	try("user and network namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNET)
	try("packet socket", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC)
	try("raw socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)
	try("raw IPv6 socket", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	try("old packet socket", unix.SYS_SOCKET, unix.AF_INET, sockPacket)
	try("vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM)
	try("clone3", unix.SYS_CLONE3)
	try("io_uring", unix.SYS_IO_URING_SETUP)
	try("bpf", unix.SYS_BPF)
	try("mount", unix.SYS_MOUNT)
	try("keyring", unix.SYS_KEYCTL)
	if runtime.GOARCH == "amd64" {
		try("x32", x32|unix.SYS_GETPID)
	}
	try("unshare nothing", unix.SYS_UNSHARE, 0)
	try("tcp socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC)
	try("udp socket", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM)
	try("netlink socket", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC)
	try("unix socket", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET)
	_, err := os.ReadFile("/proc/self/mem")
	fmt.Printf("own memory: %v\n", err != nil && !os.IsPermission(err))
}

// wanted is what a task under our filter is told.
const wanted = `user namespace: operation not permitted
user and network namespace: operation not permitted
packet socket: operation not permitted
raw socket: operation not permitted
raw IPv6 socket: operation not permitted
old packet socket: operation not permitted
vsock: operation not permitted
clone3: function not implemented
io_uring: operation not permitted
bpf: operation not permitted
mount: operation not permitted
keyring: operation not permitted
x32: function not implemented
unshare nothing: errno 0
tcp socket: errno 0
udp socket: errno 0
netlink socket: errno 0
unix socket: errno 0
own memory: true
`

// TestFilter: where the engine brings none, init and exec bring a filter of
// system calls, and a task's ordinary ones pass it. Without it root is given
// most of what is tried.
func TestFilter(t *testing.T) {
	want := wanted
	if runtime.GOARCH != "amd64" {
		want = strings.Replace(want, "x32: function not implemented\n", "", 1)
	}
	for _, argv := range [][]string{{"init", "--"}, {"exec", "x", "--"}} {
		cmd := wardynRec(t, append(argv, os.Args[0])...)
		cmd.Env = append(os.Environ(), attackEnv+"=1")
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%s: %v\n%s", argv[0], err, diff(string(out), want))
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	cmd := exec.CommandContext(testCtx(t), os.Args[0])
	cmd.Env = append(os.Environ(), attackEnv+"=1")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "packet socket: errno 0") || !strings.Contains(string(out), "raw socket: errno 0") {
		t.Errorf("without the filter: %v\n%s", err, out)
	}
}

func diff(got, want string) string {
	var b strings.Builder
	w := strings.Split(want, "\n")
	for i, g := range strings.Split(got, "\n") {
		if i >= len(w) || g != w[i] {
			fmt.Fprintf(&b, "line %d: %q\n", i+1, g)
		}
	}
	return b.String()
}

// TestInitCannotBeTraced: the task has init's user and yet neither its memory
// nor a hold on it.
func TestInitCannotBeTraced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	dir, err := os.MkdirTemp("", "rec") // one that others may enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(recPath)
	if err != nil {
		t.Fatal(err)
	}
	rec := filepath.Join(dir, "wardyn-rec")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(rec, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	const script = `cat /proc/$PPID/cmdline >/dev/null && echo seen
		head -c1 /proc/$PPID/environ >/dev/null 2>&1 && echo environment read
		head -c1 /proc/$PPID/maps >/dev/null 2>&1 && echo memory read
		head -c1 /proc/$$/environ >/dev/null && echo own read`
	cmd := exec.CommandContext(testCtx(t), rec, "init", "--", "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "seen\nown read\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWorkingDirectoryOutsideTheRoot: nothing is started from a directory of
// somebody else's, which an image reaches where a runtime leaves one open.
func TestWorkingDirectoryOutsideTheRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing the root takes root")
	}
	dir := t.TempDir()
	program, err := os.ReadFile(recPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "rec"), program, 0o755), os.Mkdir(filepath.Join(dir, "proc"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]int{"": exitNotExecutable, "/": 0} {
		for _, argv := range [][]string{{"init", "--"}, {"exec", "x", "--"}} {
			cmd := exec.CommandContext(testCtx(t), "/rec", append(argv, "/rec", "version")...)
			cmd.Dir = from // "" stays where this test is, outside
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
			out, err := cmd.CombinedOutput()
			if got := code(t, err); got != want || want != 0 && !strings.Contains(string(out), "outside the sandbox's root") {
				t.Errorf("%s from %q: code %d, want %d: %s", argv[0], from, got, want, out)
			}
		}
	}
}
