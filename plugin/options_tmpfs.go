package plugin

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// mountTmpfs reads what is a tmpfs's own of a mount block; where it goes was
// judged before.
func (a *ask) mountTmpfs(m map[string]any, source, target string, readOnly bool) error {
	opts, err := anyMap(m["tmpfs_options"])
	if err != nil {
		return fmt.Errorf("tmpfs_options: %w", err)
	}
	errs := []error{onlyKeys(opts, "tmpfs_options.", "size", "mode")}
	if source != "" {
		errs = append(errs, fmt.Errorf("a tmpfs has no source"))
	}
	t := runner.Tmpfs{Target: path.Clean(target), ReadOnly: readOnly}
	if s, ok := scalar(opts["size"]); ok && s != "0" {
		if t.SizeMiB, err = sizeMiB(s); err != nil {
			errs = append(errs, fmt.Errorf("tmpfs_options.size %q: %w", s, err))
		}
	}
	if s, ok := scalar(opts["mode"]); ok {
		if t.Mode, err = fileMode(s); err != nil {
			errs = append(errs, fmt.Errorf("tmpfs_options.mode: %w", err))
		}
	}
	a.Tmpfs = append(a.Tmpfs, t)
	return errors.Join(errs...)
}

// parseTmpfs reads "/target[:size=64m,mode=0700,ro]".
func parseTmpfs(text string) (runner.Tmpfs, error) {
	target, opts, _ := strings.Cut(text, ":")
	t := runner.Tmpfs{Target: path.Clean(target)}
	if err := checkTmpfsTarget(target); err != nil {
		return t, err
	}
	for o := range strings.SplitSeq(opts, ",") {
		k, v, _ := strings.Cut(o, "=")
		var err error
		switch k {
		case "", "rw", "noexec", "nosuid", "nodev": // as it is anyhow
		case "ro":
			t.ReadOnly = true
		case "size":
			t.SizeMiB, err = sizeMiB(v)
		case "mode":
			t.Mode, err = fileMode("0" + strings.TrimLeft(v, "0"))
		default:
			err = errors.New("want size, mode or ro")
		}
		if err != nil {
			return t, fmt.Errorf("option %q: %w", o, err)
		}
	}
	return t, nil
}

// checkTmpfsTarget is checkTarget for memory, which may also take the place of
// the sandbox's own /tmp.
func checkTmpfsTarget(t string) error {
	if t == "/tmp" {
		return nil
	}
	return checkTarget(t)
}

// fileMode reads a mode: octal with a leading zero, else the number that
// other drivers take, which HCL can only write in decimal.
func fileMode(text string) (uint32, error) {
	base := 10
	if strings.HasPrefix(text, "0") {
		base = 8
	}
	n, err := strconv.ParseUint(text, base, 32)
	if err != nil || n > 0o1777 {
		return 0, fmt.Errorf(`%q: want a mode up to 1777, in octal with a leading zero ("0700") or in decimal (448)`, text)
	}
	return uint32(n), nil
}
