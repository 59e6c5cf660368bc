package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"
)

// factsLife is how long what the engine says of itself is believed. Runtimes
// can be added to a running engine, so it is short.
const factsLife = 10 * time.Second

// hostFacts is what the pure functions need to know of the engine and its host.
type hostFacts struct {
	Version string
	// Major is the engine's major version, 0 when it is not a number.
	Major          int
	EngineID       string
	Root           string // where the engine keeps its state
	NCPU           int
	Arch           string // in Go's and the registries' spelling
	Kernel         string
	BootID         string   // of the host's kernel
	Runtimes       []string // registered names, sorted
	RuntimeKey     string   // changes whenever a registration does
	DefaultRuntime string
	// RecursiveReadOnly names the runtimes that can bind read-only all the way down.
	RecursiveReadOnly []string
	// OverlayOff names the runtimes that are registered with overlayOff.
	OverlayOff        []string
	AppArmor, SELinux bool
	// UserNamespaces: the engine remaps users, which nothing here is tested with.
	UserNamespaces bool
	// DiskQuota: the storage backend can cap a container's writable layer.
	DiskQuota bool
	// KVMGroup is the group of /dev/kvm, -1 without one.
	KVMGroup int
	// MaxNofile is how many open files a process may be allowed here; 0 is unknown.
	MaxNofile int64
}

// isolatedGateway: the engine can leave a bridge without an address of the host's.
func (f hostFacts) isolatedGateway() bool { return f.Major >= 28 }

// randomMACs: the engine draws a container's hardware address by lot.
func (f hostFacts) randomMACs() bool { return f.Major >= 28 }

// factsCache keeps the engine's answer for a short while.
type factsCache struct {
	mu    sync.Mutex
	facts hostFacts
	until time.Time
}

// facts asks the engine about itself, or answers from the last time.
func (r *Runner) facts(ctx context.Context) (hostFacts, error) {
	if f, ok := r.engine.fresh(); ok {
		return f, nil
	}
	// Not under the lock: a health check must not wait for another caller's
	// longer deadline.
	ctx, cancel := call(ctx)
	defer cancel()
	info, err := r.api.Info(ctx)
	if err != nil {
		return hostFacts{}, wrap("ask the engine", err)
	}
	if info.ServerVersion == "" {
		return hostFacts{}, incomplete("ask the engine")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hostFacts{}, fmt.Errorf("mounts of the host: %w", err)
	}
	f := factsOf(info, string(mounts))
	f.KVMGroup, f.MaxNofile, f.BootID = kvmGroup(), maxNofile(r.opts.Endpoint), bootID()
	r.engine.keep(f)
	return f, nil
}

func (c *factsCache) fresh() (hostFacts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts, time.Now().Before(c.until)
}

func (c *factsCache) keep(f hostFacts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.facts, c.until = f, time.Now().Add(factsLife)
}

// forgetFacts makes the next call ask the engine.
func (r *Runner) forgetFacts() {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.until = time.Time{}
}

// factsOf reads the engine's answer. mountinfo is the host's, in the format of
// /proc/self/mountinfo.
func factsOf(info system.Info, mountinfo string) hostFacts {
	f := hostFacts{
		Version: info.ServerVersion, EngineID: info.ID, Root: info.DockerRootDir,
		NCPU: info.NCPU, Arch: goArch(info.Architecture), Kernel: info.KernelVersion,
		DefaultRuntime: info.DefaultRuntime, KVMGroup: -1,
	}
	major, _, _ := strings.Cut(info.ServerVersion, ".")
	f.Major, _ = strconv.Atoi(major)
	for name, rt := range info.Runtimes {
		f.Runtimes = append(f.Runtimes, name)
		if hasRecursiveReadOnly(rt) {
			f.RecursiveReadOnly = append(f.RecursiveReadOnly, name)
		}
		if slices.ContainsFunc(rt.Args, func(a string) bool { return "--"+strings.TrimLeft(a, "-") == overlayOff }) {
			f.OverlayOff = append(f.OverlayOff, name)
		}
	}
	slices.Sort(f.Runtimes)
	slices.Sort(f.RecursiveReadOnly)
	slices.Sort(f.OverlayOff)
	// Marshalling sorts map keys; paths and arguments are part of it.
	if b, err := json.Marshal(info.Runtimes); err == nil {
		f.RuntimeKey = string(b)
	}
	for _, o := range info.SecurityOptions {
		name, _, _ := strings.Cut(strings.TrimPrefix(o, "name="), ",")
		switch name {
		case "apparmor":
			f.AppArmor = true
		case "selinux":
			f.SELinux = true
		case "userns", "rootless":
			f.UserNamespaces = true
		}
	}
	f.DiskQuota = diskQuota(info, mountinfo)
	return f
}

func hasRecursiveReadOnly(rt system.RuntimeWithStatus) bool {
	var features struct {
		MountOptions []string `json:"mountOptions"`
	}
	// A runtime that reports nothing, or something else, has no such feature.
	_ = json.Unmarshal([]byte(rt.Status["org.opencontainers.runtime-spec.features"]), &features)
	return slices.Contains(features.MountOptions, "rro")
}

// diskQuota: btrfs and zfs always can, overlay2 only on xfs with project
// quotas switched on.
func diskQuota(info system.Info, mountinfo string) bool {
	switch info.Driver {
	case "btrfs", "zfs":
		return true
	case "overlay2":
	default:
		return false
	}
	backing := ""
	for _, kv := range info.DriverStatus {
		if kv[0] == "Backing Filesystem" {
			backing = kv[1]
		}
	}
	if backing != "xfs" {
		return false
	}
	best, options := "", ""
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if p := f[4]; len(p) >= len(best) && (p == "/" || info.DockerRootDir == p || strings.HasPrefix(info.DockerRootDir, p+"/")) {
			best, options = p, f[len(f)-1]
		}
	}
	o := strings.Split(options, ",")
	return slices.Contains(o, "prjquota") || slices.Contains(o, "pquota")
}

// goArch turns the kernel's word for a machine into the registries'.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "i386", "i686":
		return "386"
	case "armv7l", "armv6l":
		return "arm"
	}
	return machine
}

// maxNofile is the lower of our own hard limit and the engine's: where neither
// may raise it, a container that wants more does not start.
func maxNofile(endpoint string) int64 {
	limit := int64(0)
	lower := func(pid int) {
		var l unix.Rlimit
		if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l) == nil && l.Max < math.MaxInt64 && (limit == 0 || int64(l.Max) < limit) {
			limit = int64(l.Max)
		}
	}
	lower(os.Getpid())
	if pid := enginePid(endpoint); pid > 0 {
		lower(pid)
	}
	return limit
}

func kvmGroup() int {
	fi, err := os.Stat("/dev/kvm")
	if err != nil {
		return -1
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Gid)
}

// bootID tells one running kernel from every other; "" when it is not to be had.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}
