package rec

import (
	"golang.org/x/sys/unix"
)

// rule refuses one system call, or those uses of it that every test holds for.
type rule struct {
	call  uint32
	tests []test
	errno uint32
}

// test holds when an argument's low half has the value under the mask.
type test struct {
	arg         uint32
	mask, value uint32
}

const (
	sockType   = 0xf // the kind of socket, without its flags
	sockPacket = 10  // a raw socket of the oldest kind
)

// rules are what a task has no use for, and an attacker has: to be root of a
// namespace of one's own, to write packets whole, and the interfaces of the
// kernel through which most ways out were found. All but the sockets and the
// user namespace take a capability elsewhere too.
var rules = []rule{
	refuse(unix.SYS_SETNS), refuse(unix.SYS_MOUNT), refuse(unix.SYS_UMOUNT2), refuse(unix.SYS_PIVOT_ROOT),
	refuse(unix.SYS_OPEN_TREE), refuse(unix.SYS_MOVE_MOUNT), refuse(unix.SYS_FSOPEN), refuse(unix.SYS_FSMOUNT),
	refuse(unix.SYS_BPF), refuse(unix.SYS_PERF_EVENT_OPEN), refuse(unix.SYS_USERFAULTFD),
	refuse(unix.SYS_IO_URING_SETUP), refuse(unix.SYS_IO_URING_ENTER), refuse(unix.SYS_IO_URING_REGISTER),
	refuse(unix.SYS_ADD_KEY), refuse(unix.SYS_REQUEST_KEY), refuse(unix.SYS_KEYCTL),
	refuse(unix.SYS_INIT_MODULE), refuse(unix.SYS_FINIT_MODULE), refuse(unix.SYS_KEXEC_LOAD),
	// Its flags lie in memory, where no filter sees them. Programs fall back to
	// clone when there is no such call.
	{unix.SYS_CLONE3, nil, uint32(unix.ENOSYS)},
	refuse(unix.SYS_CLONE, test{0, unix.CLONE_NEWUSER, unix.CLONE_NEWUSER}),
	refuse(unix.SYS_UNSHARE, test{0, unix.CLONE_NEWUSER, unix.CLONE_NEWUSER}),
	refuse(unix.SYS_SOCKET, family(unix.AF_PACKET)),
	refuse(unix.SYS_SOCKET, family(unix.AF_VSOCK)),
	// Netlink sockets are raw ones too, and every resolver opens them.
	refuse(unix.SYS_SOCKET, family(unix.AF_INET), kind(unix.SOCK_RAW)),
	refuse(unix.SYS_SOCKET, family(unix.AF_INET), kind(sockPacket)),
	refuse(unix.SYS_SOCKET, family(unix.AF_INET6), kind(unix.SOCK_RAW)),
}

func refuse(call uint32, tests ...test) rule { return rule{call, tests, uint32(unix.EPERM)} }
func family(f uint32) test                   { return test{0, ^uint32(0), f} }
func kind(k uint32) test                     { return test{1, sockType, k} }

// auditArch is how the kernel names the system calls a program was built for.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Where a filter finds what it judges: struct seccomp_data.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
	// x32 are the system calls of a third numbering on amd64.
	x32 = 0x40000000
)

// compile makes a filter of rules. Calls of another architecture than arch,
// whose numbers mean other things, do not exist under it.
func compile(arch uint32, rules []rule) []unix.SockFilter {
	missing := unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	p := []unix.SockFilter{load(offsetArch), unlessEqual(arch, 1), skip(1), answer(missing), load(offsetNr)}
	if arch == unix.AUDIT_ARCH_X86_64 {
		p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32, Jf: 1}, answer(missing))
	}
	for _, r := range rules {
		p = append(p, r.compile()...)
	}
	return append(p, answer(unix.SECCOMP_RET_ALLOW))
}

// compile expects the call's number loaded, and leaves it so where the rule
// does not hold.
func (r rule) compile() []unix.SockFilter {
	if len(r.tests) == 0 {
		return []unix.SockFilter{unlessEqual(r.call, 1), answer(unix.SECCOMP_RET_ERRNO | r.errno)}
	}
	// Each test is three steps, then comes the answer, then the number again.
	left := uint8(3*len(r.tests) + 1)
	p := []unix.SockFilter{unlessEqual(r.call, left+1)}
	for _, t := range r.tests {
		left -= 3
		p = append(p, load(offsetArgs+8*t.arg),
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: t.mask}, unlessEqual(t.value, left))
	}
	return append(p, answer(unix.SECCOMP_RET_ERRNO|r.errno), load(offsetNr))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// unlessEqual goes on where the loaded value is k, and jumps over n steps else.
func unlessEqual(k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
}

func skip(n uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: n}
}

func answer(a uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: a}
}
