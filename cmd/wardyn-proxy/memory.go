package main

import (
	"bufio"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// How much the heap grows, in percent, before it is collected. A sidecar is one
// of many on its node, so memory comes first as long as the CPU of a request
// stays beside that of a proxy that does nothing else. After a load of 12,000
// requests and 6,000 tunnels 80 holds 13.5 MB where Go's own 100 holds 14.3, for
// 2 % of the CPU of a tunnel. The handshakes of one that ends TLS make garbage of
// which little is live: 50 holds 13.8 MB where 100 holds 15.7, for a fifth of the
// CPU of a tunnel more.
const (
	plainGC        = 80
	interceptingGC = 50
)

// frugal sets that, unless GOGC says otherwise.
func frugal(c egress.Config) {
	switch {
	case os.Getenv("GOGC") != "":
	case c.MITMCACertPEM != "":
		debug.SetGCPercent(interceptingGC)
	default:
		debug.SetGCPercent(plainGC)
	}
}

// settle gives back the memory that only the start needed: the heap's free
// pages, and the mapped pages of the program itself. Code that runs again comes
// back from the page cache, where all sidecars of a node share it.
func settle(log *slog.Logger) {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		start, length, ok := cleanMapping(sc.Text(), exe)
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED); errno != 0 {
			log.Debug("program pages not given back", "error", errno)
		}
	}
}

// cleanMapping reads a line of /proc/self/maps and returns the range when it is
// a mapping of the program that cannot be written, and so holds nothing of ours.
func cleanMapping(line, exe string) (start, length uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[5] != exe || !strings.HasPrefix(fields[1], "r-") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	z, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil || z <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(z - a), true
}
