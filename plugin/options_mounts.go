package plugin

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// MountHostConfig is the part of the plugin's config that is about mounts.
type MountHostConfig struct {
	Volumes *VolumesConfig `codec:"volumes"`
}

// VolumesConfig is the plugin's volumes block.
type VolumesConfig struct {
	Enabled bool     `codec:"enabled"`
	Paths   []string `codec:"paths"`
	Named   bool     `codec:"named"`
}

// addMountHost adds the schema of MountHostConfig.
func addMountHost(s map[string]*hclspec.Spec) {
	s["volumes"] = hclspec.Block("volumes", hclspec.Object(map[string]*hclspec.Spec{
		"enabled": hclspec.Attr("enabled", hclspec.Bool),
		"paths":   hclspec.Attr("paths", hclspec.StringList),
		"named":   hclspec.Attr("named", hclspec.Bool),
	}))
}

// VolumeRules are the operator's decisions about mounts.
type VolumeRules struct {
	// Paths are folders of the host that jobs may mount, with what is below.
	Paths []string
	// Named lets jobs keep volumes on the node.
	Named bool
}

// volumeRules reads the operator's volumes block. A path that is never mounted
// for a job is refused here, not first when a job names it.
func volumeRules(f *faults, c *VolumesConfig) VolumeRules {
	if c == nil {
		return VolumeRules{}
	}
	if c.Enabled {
		f.add("volumes.enabled", true, "the host is never opened as a whole", "list the folders that jobs may mount in volumes.paths")
	}
	for _, p := range c.Paths {
		if !path.IsAbs(p) || path.Clean(p) != p {
			f.add("volumes.paths", p, "want an absolute path without . and ..", `for instance "/srv/shared"`)
		} else if err := runner.ValidateMountName(p); err != nil {
			f.add("volumes.paths", p, err.Error(), "")
		}
	}
	return VolumeRules{Paths: c.Paths, Named: c.Named}
}

// allows reports whether a job may mount a path of the host.
func (r VolumeRules) allows(p string) bool {
	return slices.ContainsFunc(r.Paths, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// MountTaskConfig is the part of a task's config that is about mounts.
type MountTaskConfig struct {
	Mount  any `codec:"mount"`
	Mounts any `codec:"mounts"`
	Tmpfs  any `codec:"tmpfs"`
}

// addMountTask adds the schema of MountTaskConfig.
func addMountTask(s map[string]*hclspec.Spec) {
	for _, name := range []string{"mount", "mounts", "tmpfs"} {
		s[name] = hclspec.Attr(name, hclspec.Any)
	}
}

// mountAsk is what a task's author wants mounted beside binds.
type mountAsk struct {
	Tmpfs []runner.Tmpfs
	Kept  []keptVolume
}

// keptVolume is a volume that outlives the task.
type keptVolume struct {
	Name, Target     string
	ReadOnly, NoCopy bool
}

// readMounts reads mount, mounts and tmpfs. taken are the targets in use.
func (a *ask) readMounts(c TaskConfig, h HostConfig, taken map[string]bool, f *faults) {
	for field, v := range map[string]any{"mount": c.Mount, "mounts": c.Mounts} {
		list, err := mapList(v)
		if err != nil {
			f.add(field, nil, err.Error(), `write mount { type = "tmpfs" target = "/scratch" }, one line each`)
		}
		for _, m := range list {
			if err := a.readMount(m, h.Volumes, taken); err != nil {
				f.add(field, shownMount(m), err.Error(), "")
			}
		}
	}
	list, err := stringList(c.Tmpfs)
	if err != nil {
		f.add("tmpfs", nil, err.Error(), `write tmpfs = ["/scratch:size=64m"]`)
	}
	for _, text := range list {
		t, err := parseTmpfs(text)
		if err == nil {
			err = take(taken, t.Target)
		}
		if err != nil {
			f.add("tmpfs", text, err.Error(), `for instance "/scratch:size=64m,mode=0700"`)
			continue
		}
		a.Tmpfs = append(a.Tmpfs, t)
	}
	slices.SortFunc(a.Tmpfs, func(x, y runner.Tmpfs) int { return strings.Compare(x.Target, y.Target) })
}

// shownMount names a mount in a refusal.
func shownMount(m map[string]any) string {
	target, _ := scalar(m["target"])
	return target
}

// mountKeys are the options of a mount block, under docker's names.
var mountKeys = []string{"type", "source", "target", "readonly", "bind_options", "tmpfs_options", "volume_options"}

// readMount reads one mount block.
func (a *ask) readMount(m map[string]any, r VolumeRules, taken map[string]bool) error {
	if err := onlyKeys(m, "", mountKeys...); err != nil {
		return err
	}
	kind, _ := scalar(m["type"])
	source, _ := scalar(m["source"])
	target, _ := scalar(m["target"])
	readOnly, err := boolean(m["readonly"])
	if err != nil {
		return fmt.Errorf("readonly: %w", err)
	}
	for _, other := range []string{"bind", "tmpfs", "volume"} {
		if asks(m[other+"_options"]) && kind != other && (kind != "" || other != "volume") {
			return fmt.Errorf("%s_options go with type = %q", other, other)
		}
	}
	if kind == "tmpfs" {
		return a.mountTmpfs(m, source, target, readOnly, taken)
	}
	if err := errors.Join(checkTarget(target), take(taken, path.Clean(target))); err != nil {
		return err
	}
	switch kind {
	case "bind":
		if err := checkPropagation(m["bind_options"]); err != nil {
			return err
		}
		b, err := bindOf(source, target, readOnly, r)
		if err == nil {
			a.Binds = append(a.Binds, b)
		}
		return err
	case "volume", "": // docker's own default
		return a.mountVolume(m, source, target, readOnly, r)
	}
	return fmt.Errorf("type %q: want bind, tmpfs or volume", kind)
}

// bindOf is a bind mount of the task's own folders, or of the host's where the
// operator lists them.
func bindOf(source, target string, readOnly bool, r VolumeRules) (bind, error) {
	b := bind{Target: path.Clean(target), ReadOnly: readOnly}
	if path.IsAbs(source) && r.allows(path.Clean(source)) {
		b.Host = path.Clean(source)
		// It goes where the job says, as folders of the task's own do.
		return b, errors.Join(runner.ValidateMountName(b.Host), checkTarget(target))
	}
	var err error
	if b.Source, err = taskpath.ParseSource(source); err != nil && path.IsAbs(source) {
		return bind{}, fmt.Errorf("%w; the operator lists what of the host can be mounted (plugin option volumes.paths)", err)
	}
	return b, err
}

func checkPropagation(v any) error {
	m, err := anyMap(v)
	if err != nil {
		return fmt.Errorf("bind_options: %w", err)
	}
	if err := onlyKeys(m, "bind_options.", "propagation"); err != nil {
		return err
	}
	switch p, _ := scalar(m["propagation"]); p {
	case "", "private", "rprivate":
		return nil
	default:
		return fmt.Errorf(`bind_options.propagation %q: mounts made later do not cross into or out of a sandbox; write "rprivate"`, p)
	}
}

func (a *ask) mountTmpfs(m map[string]any, source, target string, readOnly bool, taken map[string]bool) error {
	opts, err := anyMap(m["tmpfs_options"])
	if err != nil {
		return fmt.Errorf("tmpfs_options: %w", err)
	}
	if err := onlyKeys(opts, "tmpfs_options.", "size", "mode"); err != nil {
		return err
	}
	if source != "" {
		return fmt.Errorf("a tmpfs has no source")
	}
	t := runner.Tmpfs{Target: path.Clean(target), ReadOnly: readOnly}
	if s, ok := scalar(opts["size"]); ok && s != "0" {
		if t.SizeMiB, err = sizeMiB(s); err != nil {
			return fmt.Errorf("tmpfs_options.size %q: %w", s, err)
		}
	}
	if s, ok := scalar(opts["mode"]); ok {
		if t.Mode, err = fileMode(s); err != nil {
			return fmt.Errorf("tmpfs_options.mode: %w", err)
		}
	}
	if err := errors.Join(checkTmpfsTarget(target), take(taken, t.Target)); err != nil {
		return err
	}
	a.Tmpfs = append(a.Tmpfs, t)
	return nil
}

func (a *ask) mountVolume(m map[string]any, source, target string, readOnly bool, r VolumeRules) error {
	opts, err := anyMap(m["volume_options"])
	if err != nil {
		return fmt.Errorf("volume_options: %w", err)
	}
	if asks(opts["driver_config"]) {
		return fmt.Errorf("volume_options.driver_config: a volume driver's options reach the host's file system; use a host volume with volume_mount")
	}
	if asks(opts["labels"]) {
		return fmt.Errorf("volume_options.labels: labels of volumes are the driver's; remove them")
	}
	if err := onlyKeys(opts, "volume_options.", "no_copy", "driver_config", "labels"); err != nil {
		return err
	}
	noCopy, err := boolean(opts["no_copy"])
	switch {
	case err != nil:
		return fmt.Errorf("volume_options.no_copy: %w", err)
	case !r.Named:
		return fmt.Errorf("the operator keeps no volumes for jobs (plugin option volumes.named); use a host volume with volume_mount, or a folder below local/")
	case source == "":
		return fmt.Errorf("a volume needs a name in source; for a folder that goes with the task use a bind of one below local/")
	case len(source) > 128 || strings.ContainsAny(source, "/\x00\n"):
		return fmt.Errorf("source %q: want a name of at most 128 characters without slashes", source)
	}
	a.Kept = append(a.Kept, keptVolume{Name: source, Target: path.Clean(target), ReadOnly: readOnly, NoCopy: noCopy})
	return nil
}

// keptMounts are the mounts of a task's kept volumes. Their names are made of
// the namespace too, so that no two namespaces meet in one.
func keptMounts(t *driverpb.TaskConfig, a ask) []runner.TaskMount {
	var out []runner.TaskMount
	for _, v := range a.Kept {
		out = append(out, runner.TaskMount{
			Volume: driver.NamedVolume(t.GetNamespace(), v.Name), Target: v.Target, ReadOnly: v.ReadOnly, NoCopy: v.NoCopy,
		})
	}
	return out
}

// checkVolumeOwner refuses to keep volumes for a client that does not say whose they are.
func checkVolumeOwner(t *driverpb.TaskConfig, a ask, f *faults) {
	if t.GetNamespace() == "" && len(a.Kept) > 0 {
		f.add("mount", a.Kept[0].Target, "the Nomad client does not say in which namespace the job is, so nothing can be kept for it", "use a newer client, or leave the volume out")
	}
}

// checkHostPaths judges what is really at the paths of the host that a task
// mounts.
func checkHostPaths(a ask, check func(string) error, f *faults) {
	for _, b := range a.Binds {
		if b.Host == "" || check == nil {
			continue
		}
		if err := check(b.Host); err != nil {
			f.add("volumes", b.Host, err.Error(), "")
		}
	}
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

// take claims a target.
func take(taken map[string]bool, target string) error {
	if taken[target] {
		return fmt.Errorf("something else is mounted at %s already; remove one of the two", target)
	}
	taken[target] = true
	return nil
}

// mapList reads one map, several blocks or a list of maps, each on its own.
func mapList(v any) ([]map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return []map[string]any{v}, nil
	case []any:
		var out []map[string]any
		for _, e := range v {
			if e == nil {
				continue
			}
			m, ok := e.(map[string]any)
			if !ok {
				return nil, errors.New("want blocks or a list of maps")
			}
			out = append(out, m)
		}
		return out, nil
	}
	return nil, errors.New("want blocks or a list of maps")
}

// onlyKeys refuses what a block does not know.
func onlyKeys(m map[string]any, prefix string, known ...string) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, k) && m[k] != nil {
			return fmt.Errorf("%s%s: no such option; there are %s", prefix, k, strings.Join(known, ", "))
		}
	}
	return nil
}

// boolean reads a switch in any spelling.
func boolean(v any) (bool, error) {
	if v == nil {
		return false, nil
	}
	s, _ := scalar(v)
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("want true or false")
	}
	return b, nil
}
