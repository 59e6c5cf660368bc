package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Files of a run's directory that a sandbox sees.
const (
	resolvFile = "resolv.conf"
	hostsFile  = "hosts"
)

// reservedTargets are places in a sandbox that nobody but this package mounts at.
var reservedTargets = []string{"/proc", "/sys", "/dev", ownTarget, "/etc/resolv.conf", "/etc/hosts", "/etc/hostname"}

// tmpTarget has a mount in every sandbox, unless the task brings its own.
const tmpTarget = "/tmp"

// agentMounts lists the binds of an agent's container: ours first, then the
// operator's, then the task's.
func agentMounts(in agentInput) []mount.Mount {
	out := []mount.Mount{
		bind(filepath.Join(in.Files, ownFolder), ownTarget, true, ""),
		bind(in.Recorder, recorderTarget, true, ""),
		bind(filepath.Join(in.Files, resolvFile), "/etc/resolv.conf", true, ""),
		bind(filepath.Join(in.Files, hostsFile), "/etc/hosts", true, ""),
	}
	recursive := slices.Contains(in.Host.RecursiveReadOnly, in.Runtime) && in.Host.Major >= 25
	for _, m := range in.Spec.Mounts {
		b := bind(m.Source, m.Target, m.ReadOnly, "")
		b.BindOptions.ReadOnlyForceRecursive = m.ReadOnly && recursive
		out = append(out, b)
	}
	for _, m := range in.task().Mounts {
		if m.Yields && below(in.Image.WorkDir, m.Target) {
			continue
		}
		if m.Volume != "" {
			out = append(out, volumeMount(m))
			continue
		}
		b := bind(m.Source, m.Target, m.ReadOnly, m.Propagation)
		b.BindOptions.ReadOnlyForceRecursive = m.ReadOnly && recursive && m.Propagation == ""
		out = append(out, b)
	}
	return out
}

// volumeMount mounts a named volume. An empty one takes over what the image
// has at its place, as everywhere with this engine.
func volumeMount(m runner.TaskMount) mount.Mount {
	v := mount.Mount{Type: mount.TypeVolume, Source: m.Volume, Target: m.Target, ReadOnly: m.ReadOnly}
	if m.NoCopy {
		v.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
	}
	return v
}

// below reports whether path p is dir or below it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func bind(source, target string, readOnly bool, propagation string) mount.Mount {
	p := mount.PropagationRPrivate
	if propagation != "" {
		p = mount.Propagation(propagation)
	}
	return mount.Mount{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: p},
	}
}

// agentTmpfs maps targets to mount options. Nothing in memory is executable.
func agentTmpfs(task []runner.Tmpfs) map[string]string {
	out := map[string]string{tmpTarget: "rw,nosuid,nodev,noexec,size=256m"}
	for _, t := range task {
		size, mode := t.SizeMiB, t.Mode
		if size <= 0 {
			size = 64
		}
		if mode == 0 {
			mode = 0o1777
		}
		access := "rw"
		if t.ReadOnly {
			access = "ro"
		}
		out[t.Target] = fmt.Sprintf("%s,nosuid,nodev,noexec,size=%dm,mode=%o", access, size, mode)
	}
	return out
}

// checkMounts judges every mount of a spec: the operator's by the contract's
// rules, the task's own by the reserved targets, all of them for clashes.
func checkMounts(spec runner.SandboxSpec, host hostFacts, runtime string, denied []string) (errs []error) {
	seen := make(map[string]bool)
	target := func(t string) {
		if seen[t] {
			errs = append(errs, fmt.Errorf("mount at %q: two mounts want the same place", t))
		}
		seen[t] = true
	}
	for _, m := range spec.Mounts {
		if err := errors.Join(runner.ValidateTarget(m.Target), checkSource(m, host, runtime, denied)); err != nil {
			errs = append(errs, err)
		}
		target(m.Target)
	}
	if spec.Task == nil {
		return errs
	}
	for _, m := range spec.Task.Mounts {
		if err := errors.Join(checkTaskMount(m), checkBelow(m.Source, m.ReadOnly, host, runtime)); err != nil {
			errs = append(errs, err)
		}
		target(m.Target)
	}
	for _, t := range spec.Task.Tmpfs {
		if err := checkTarget(t.Target); err != nil {
			errs = append(errs, fmt.Errorf("tmpfs: %w", err))
		}
		target(t.Target)
	}
	return errs
}

// checkSource applies the deny list, and refuses a read-only bind that would
// leave a file system mounted below it writable.
func checkSource(m runner.Mount, host hostFacts, runtime string, denied []string) error {
	if err := runner.ValidateMountSourceBeside(m.Source, denied); err != nil {
		return err
	}
	return checkBelow(m.Source, m.ReadOnly, host, runtime)
}

// checkBelow refuses a read-only bind of a source that has another file system
// mounted below it, where the engine cannot bind read-only all the way down. A
// source that is not there is the engine's to refuse.
func checkBelow(source string, readOnly bool, host hostFacts, runtime string) error {
	if !readOnly || source == "" || slices.Contains(host.RecursiveReadOnly, runtime) && host.Major >= 25 {
		return nil
	}
	below, err := runner.MountsBelow(source)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mount source %q: %w", source, err)
	}
	if len(below) > 0 {
		return fmt.Errorf("mount source %q: %s is mounted below it and would stay writable under this engine and runtime; bind a folder without mounts in it: %w",
			source, below[0], runner.ErrDenied)
	}
	return nil
}

func checkTaskMount(m runner.TaskMount) error {
	switch {
	case m.Volume != "" && (m.Source != "" || m.Propagation != ""):
		return fmt.Errorf("mount at %q: a volume has neither source nor propagation", m.Target)
	case m.Volume != "":
		return checkTarget(m.Target)
	case !path.IsAbs(m.Source) || path.Clean(m.Source) != m.Source:
		return fmt.Errorf("mount at %q: source %q is not an absolute, clean path", m.Target, m.Source)
	}
	if p := m.Propagation; p != "" && p != "rprivate" && p != "rslave" && p != "rshared" {
		return fmt.Errorf("mount at %q: propagation %q; want rprivate, rslave or rshared", m.Target, p)
	}
	return checkTarget(m.Target)
}

// checkTarget refuses places that are the sandbox's own.
func checkTarget(t string) error {
	if !path.IsAbs(t) || path.Clean(t) != t || t == "/" || strings.ContainsRune(t, 0) {
		return fmt.Errorf("mount at %q: want an absolute, clean path below /", t)
	}
	for _, r := range reservedTargets {
		if below(t, r) || below(r, t) {
			return fmt.Errorf("mount at %q: %s is the sandbox's own; choose another place: %w", t, r, runner.ErrDenied)
		}
	}
	return nil
}
