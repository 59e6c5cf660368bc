package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/doctor"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// gather finds out what doctor judges.
func gather(ctx context.Context, h plugin.HostConfig, deep bool) (doctor.Facts, error) {
	i, err := docker.NewInspector(h.Endpoint)
	if err != nil {
		return doctor.Facts{}, err
	}
	defer i.Close()
	f := doctor.Facts{Endpoint: i.Endpoint(), Host: hostFacts()}
	instance, missing, err := datadir.Look(dataDir(h))
	f.Data = doctor.DataDir{Path: dataDir(h), Missing: missing}
	if err != nil {
		f.Data.Fault = err.Error()
	}
	f.Disks = append(f.Disks, diskOf("data_dir", dataDir(h)))
	s, err := i.Inspect(ctx)
	if err != nil {
		f.EngineErr = err.Error()
		return f, nil
	}
	f.Engine, f.Host.BridgeFilter = engineFacts(s), s.BridgeFilter
	f.Disks = append(f.Disks, diskOf("the engine's root", s.Root))
	if f.Pools, err = poolFacts(h, s.Networks, instance); err != nil {
		return f, err
	}
	kept, err := docker.LastFindings(dataDir(h))
	if deep {
		var left error
		if kept, left, err = probeNow(ctx, h); left != nil {
			f.ProbesLeft = left.Error()
		}
	}
	f.Classes = classFacts(h, s, kept)
	if err != nil && !errors.Is(err, os.ErrPermission) {
		return f, err
	}
	return f, nil
}

func hostFacts() doctor.Host {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	return doctor.Host{Root: os.Geteuid() == 0, Systemd: exists("/run/systemd/system"), KVM: exists("/dev/kvm")}
}

func engineFacts(s docker.Inspection) doctor.Engine {
	e := doctor.Engine{
		Version: s.Version, Containerd: s.Containerd, Runc: s.Runc, Kernel: s.Kernel,
		StorageDriver: s.StorageDriver, Root: s.Root, CgroupDriver: s.CgroupDriver, CgroupVersion: s.CgroupVersion,
		DefaultRuntime: s.DefaultRuntime, AppArmor: s.AppArmor, SELinux: s.SELinux, Seccomp: s.Seccomp,
		UserNamespaces: s.UserNamespaces, DiskQuota: s.DiskQuota, IsolatedGateway: s.IsolatedGateway,
	}
	for _, rt := range s.Runtimes {
		e.Runtimes = append(e.Runtimes, doctor.Runtime(rt))
	}
	return e
}

// classFacts puts together which runtime would give a class, and what its last
// probe said.
func classFacts(h plugin.HostConfig, s docker.Inspection, kept docker.KeptFindings) []doctor.Class {
	found := map[classRuntime]runner.ClassFinding{}
	for _, c := range kept.Findings.Classes {
		found[classRuntime{c.Class, c.Runtime}] = c
	}
	var out []doctor.Class
	for _, class := range types.Classes() {
		c := doctor.Class{Name: string(class), Pin: h.Runtimes[class], Offered: h.Offers(class) && class.Rank() >= h.MinClass.Rank()}
		rt, err := s.Runtime(class, h.Runtimes[class])
		if err != nil {
			c.Reason = strings.TrimPrefix(err.Error(), runner.ErrClassUnavailable.Error()+": ")
		} else if probed, ok := found[classRuntime{c.Name, rt}]; ok {
			c.Works, c.Reason, c.Probed = probed.Works, probed.Reason, kept.At
		}
		c.Runtime = rt
		out = append(out, c)
	}
	return out
}

// probeNow runs every class's probe in an installation of its own. left is why
// something of it could not be removed: a runtime that hangs has it.
func probeNow(ctx context.Context, h plugin.HostConfig) (k docker.KeptFindings, left, err error) {
	temp, err := os.MkdirTemp("", "wardyn-doctor-")
	if err != nil {
		return k, nil, fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { left = errors.Join(left, os.RemoveAll(temp)) }()
	h.DataDir = filepath.Join(temp, "data")
	// What others found is not what was asked for.
	none := func(*datadir.Dir) string { return "" }
	p, err := assembleWith(h, slog.New(slog.DiscardHandler), none)
	if err != nil {
		return k, nil, err
	}
	const wait, again, remove = 5 * time.Minute, 200 * time.Millisecond, time.Minute
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), remove)
		defer cancel()
		left = errors.Join(p.runner.Close(), purgeInstallation(undo, h, true))
	}()
	for {
		k = docker.KeptFindings{At: time.Now(), Findings: p.runner.Probe(ctx)}
		if !k.Findings.Pending {
			return k, nil, nil
		}
		select {
		case <-ctx.Done():
			return k, nil, fmt.Errorf("the probes did not end: %w", ctx.Err())
		case <-time.After(again):
		}
	}
}

// poolFacts looks who else holds part of the ranges. What this installation
// made itself does not count.
func poolFacts(h plugin.HostConfig, nets []docker.EngineNetwork, instance string) ([]doctor.Pool, error) {
	host, err := netpool.HostRanges()
	if err != nil {
		return nil, err
	}
	runs, egress := h.Pools()
	var out []doctor.Pool
	for _, p := range []struct {
		option, name string
		rng          netip.Prefix
		bits         int
	}{{"subnet_pool", "runs", runs, docker.RunBits}, {"egress_subnet_pool", "egress", egress, docker.EgressBits}} {
		d := doctor.Pool{Option: p.option, Range: p.rng, Total: 1 << (p.bits - p.rng.Bits()), Single: p.name == "egress", Elsewhere: elsewhere(p.rng, host, nets, instance)}
		used, err := netpool.Count(dataDir(h), p.name)
		d.Used, d.UsedUnknown = used, err != nil
		out = append(out, d)
	}
	return out, nil
}

func elsewhere(rng netip.Prefix, host []netip.Prefix, nets []docker.EngineNetwork, instance string) []doctor.Range {
	var out []doctor.Range
	known := map[netip.Prefix]bool{}
	for _, n := range nets {
		for _, s := range n.Subnets {
			known[s] = true
			if s.Overlaps(rng) && (n.Instance == "" || n.Instance != instance) {
				out = append(out, doctor.Range{Prefix: s, Holder: "network " + n.Name + " of the engine", Alike: n.Instance != ""})
			}
		}
	}
	for _, p := range host {
		if !known[p] && p.Overlaps(rng) {
			known[p] = true // a route and an address say the same
			out = append(out, doctor.Range{Prefix: p, Holder: "a route of the host"})
		}
	}
	return out
}

// diskOf measures the file system below a folder, or where it would be made.
func diskOf(what, path string) doctor.Disk {
	d := doctor.Disk{Of: what, Path: path}
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for dir := path; errors.Is(err, unix.ENOENT) && dir != "/"; {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &st)
	}
	if err != nil {
		d.Err = err.Error()
		return d
	}
	const mib = 1 << 20
	d.FreeMiB, d.TotalMiB = int64(st.Bavail)*st.Bsize/mib, int64(st.Blocks)*st.Bsize/mib
	d.FreeInodes, d.NoInodeCount = st.Ffree, st.Files == 0
	return d
}
