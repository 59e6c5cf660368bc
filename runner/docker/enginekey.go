package docker

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// engineKey changes whenever a verdict on a runtime may have become void: the
// engine was away, is another, was restarted, or has other runtimes.
func (r *Runner) engineKey(f hostFacts) string { return r.engineKeyAt(f, r.findings.generation()) }

func (r *Runner) engineKeyAt(f hostFacts, epoch int) string {
	return fmt.Sprintf("%d %s %s %s %s", epoch, f.EngineID, f.Version, enginePeer(r.opts.Endpoint), f.RuntimeKey)
}

// enginePeer names the process that holds the engine's socket, as pid and
// start time; "" when it cannot be told. Where a service manager holds the
// socket it tells nothing, and does no harm.
func enginePeer(endpoint string) string {
	pid := enginePid(endpoint)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return ""
	}
	// The start time is the 20th field after the command's closing bracket.
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	fields := strings.Fields(string(after))
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%d@%s", pid, fields[19])
}

// enginePid is the process that holds the engine's socket; 0 when unknown.
func enginePid(endpoint string) int {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return 0
	}
	c, err := net.DialTimeout("unix", path, askTimeout)
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if cerr != nil || err != nil {
		return 0
	}
	return int(cred.Pid)
}
