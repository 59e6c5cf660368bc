package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/nearest"
)

// grantable are the capabilities an operator may let tasks keep. The rest
// reach beyond the sandbox, or round its proxy.
var grantable = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "NET_BIND_SERVICE",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE",
}

// linuxCaps are all that Linux has.
var linuxCaps = append([]string{
	"AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "IPC_OWNER",
	"LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BROADCAST", "NET_RAW",
	"PERFMON", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_PACCT", "SYS_RAWIO", "SYS_RESOURCE",
	"SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}, grantable...)

// allCaps stands for every capability.
const allCaps = "ALL"

const noSuchCap = "there is no such capability"

// readCaps reads what processes of root are to have: what cap_add names, within the
// operator's list, and cap_drop does not.
func (a *ask) readCaps(c TaskConfig, h HostConfig, f *faults) {
	var drop []string
	for _, name := range c.CapDrop {
		n := capName(name)
		if n != allCaps && !slices.Contains(linuxCaps, n) {
			f.add("cap_drop", name, noSuchCap, meantCap(n, linuxCaps))
		}
		drop = append(drop, n)
	}
	for _, name := range c.CapAdd {
		switch n := capName(name); {
		case n != allCaps && !slices.Contains(linuxCaps, n):
			f.add("cap_add", name, noSuchCap, meantCap(n, grantable))
		case !slices.Contains(grantable, n):
			f.add("cap_add", name, "this capability is never given to a sandbox", "remove it")
		case !slices.Contains(h.AllowCaps, n):
			f.add("cap_add", name, "the operator does not allow it (plugin option allow_caps)", "remove it")
		case !slices.Contains(drop, n) && !slices.Contains(a.CapAdd, n):
			a.CapAdd = append(a.CapAdd, n)
		}
	}
	slices.Sort(a.CapAdd)
}

// capName is the name as the kernel has it, without CAP_.
func capName(s string) string {
	return strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(s)), "CAP_")
}

// meantCap is what to write instead of a name that is no capability's.
func meantCap(name string, known []string) string {
	if best, ok := nearest.Name(name, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "remove it"
}
