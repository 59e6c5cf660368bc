package plugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

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

// take claims a target.
func take(taken map[string]bool, target string) error {
	if taken[target] {
		return fmt.Errorf("something else is mounted at %s already; remove one of the two", target)
	}
	taken[target] = true
	return nil
}
