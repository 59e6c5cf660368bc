package plugin

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
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
	// tmpfsBy are the options that ask for them, by their targets.
	tmpfsBy map[string]string
	Kept    []keptVolume
}

// keptVolume is a volume that outlives the task.
type keptVolume struct {
	Name, Target     string
	ReadOnly, NoCopy bool
}

// readMounts reads mount, mounts and tmpfs. taken are the targets in use.
func (a *ask) readMounts(c TaskConfig, h HostConfig, taken map[string]bool, f *faults) {
	a.tmpfsBy = map[string]string{}
	for _, x := range []struct {
		field string
		value any
	}{{"mount", c.Mount}, {"mounts", c.Mounts}} {
		field := x.field
		list, err := mapList(x.value)
		if err != nil {
			f.add(field, nil, err.Error(), `write mount { type = "tmpfs" target = "/scratch" }, one line each`)
		}
		for _, m := range list {
			before, memory := len(a.Binds), len(a.Tmpfs)
			f.addEach(field, shownMount(m), a.readMount(m, h.Volumes, taken))
			for i := range a.Binds[before:] {
				a.Binds[before+i].Option, a.Binds[before+i].As = field, shownMount(m)
			}
			for _, t := range a.Tmpfs[memory:] {
				a.tmpfsBy[t.Target] = field
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
		a.tmpfsBy[t.Target] = "tmpfs"
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

// readMount reads one mount block. Its error joins all that is wrong with it.
func (a *ask) readMount(m map[string]any, r VolumeRules, taken map[string]bool) error {
	errs := []error{onlyKeys(m, "", mountKeys...)}
	kind, _ := scalar(m["type"])
	source, _ := scalar(m["source"])
	target, _ := scalar(m["target"])
	readOnly, err := boolean(m["readonly"])
	if err != nil {
		errs = append(errs, fmt.Errorf("readonly: %w", err))
	}
	for _, other := range []string{"bind", "tmpfs", "volume"} {
		if asks(m[other+"_options"]) && kind != other && (kind != "" || other != "volume") {
			errs = append(errs, fmt.Errorf("%s_options go with type = %q", other, other))
		}
	}
	check := checkTarget
	if kind == "tmpfs" {
		check = checkTmpfsTarget
	}
	if err := check(target); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, take(taken, path.Clean(target)))
	}
	switch kind {
	case "tmpfs":
		errs = append(errs, a.mountTmpfs(m, source, target, readOnly))
	case "bind":
		errs = append(errs, checkPropagation(m["bind_options"]))
		b, err := bindOf(source, target, readOnly, r)
		if err == nil {
			a.Binds = append(a.Binds, b)
		}
		errs = append(errs, err)
	case "volume", "": // docker's own default
		errs = append(errs, a.mountVolume(m, source, target, readOnly, r))
	default:
		errs = append(errs, fmt.Errorf("type %q: want bind, tmpfs or volume", kind))
	}
	return errors.Join(errs...)
}

// bindOf is a bind mount of the task's own folders, or of the host's where the
// operator lists them. It goes where the job says; its target was judged before.
func bindOf(source, target string, readOnly bool, r VolumeRules) (bind, error) {
	b := bind{Target: path.Clean(target), ReadOnly: readOnly}
	if !path.IsAbs(source) {
		var err error
		b.Source, err = taskpath.ParseSource(source)
		return b, err
	}
	b.Host = path.Clean(source)
	if r.allows(b.Host) {
		return b, runner.ValidateMountName(b.Host)
	}
	_, err := taskpath.ParseSource(source)
	if never := runner.ValidateMountName(b.Host); never != nil {
		return bind{}, fmt.Errorf("%w, and the plugin option volumes.paths cannot list it; files that the task needs of it go into local/, by a template or an artifact", never)
	}
	return bind{}, fmt.Errorf("%w; the operator lists what of the host can be mounted (plugin option volumes.paths)", err)
}

func checkPropagation(v any) error {
	m, err := anyMap(v)
	if err != nil {
		return fmt.Errorf("bind_options: %w", err)
	}
	errs := []error{onlyKeys(m, "bind_options.", "propagation")}
	switch p, _ := scalar(m["propagation"]); p {
	case "", "private", "rprivate":
	default:
		errs = append(errs, fmt.Errorf(`bind_options.propagation %q: mounts made later do not cross into or out of a sandbox; write "rprivate"`, p))
	}
	return errors.Join(errs...)
}

func (a *ask) mountVolume(m map[string]any, source, target string, readOnly bool, r VolumeRules) error {
	opts, err := anyMap(m["volume_options"])
	if err != nil {
		return fmt.Errorf("volume_options: %w", err)
	}
	errs := []error{onlyKeys(opts, "volume_options.", "no_copy", "driver_config", "labels")}
	if asks(opts["driver_config"]) {
		errs = append(errs, fmt.Errorf("volume_options.driver_config: a volume driver's options reach the host's file system; use a host volume with volume_mount"))
	}
	if asks(opts["labels"]) {
		errs = append(errs, fmt.Errorf("volume_options.labels: labels of volumes are the driver's; remove them"))
	}
	noCopy, err := boolean(opts["no_copy"])
	if err != nil {
		errs = append(errs, fmt.Errorf("volume_options.no_copy: %w", err))
	}
	if !r.Named {
		errs = append(errs, fmt.Errorf("the operator keeps no volumes for jobs (plugin option volumes.named); use a host volume with volume_mount, or a folder below local/"))
	}
	switch {
	case source == "":
		errs = append(errs, fmt.Errorf("a volume needs a name in source; for a folder that goes with the task use a bind of one below local/"))
	case len(source) > 128 || strings.ContainsAny(source, "/\x00\n"):
		errs = append(errs, fmt.Errorf("source %q: want a name of at most 128 characters without slashes", source))
	}
	a.Kept = append(a.Kept, keptVolume{Name: source, Target: path.Clean(target), ReadOnly: readOnly, NoCopy: noCopy})
	return errors.Join(errs...)
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
			f.addEach(b.Option, b.As, err)
		}
	}
}

// withoutLinks refuses a path of the host with a link on it, since none is
// followed when it is opened, and says where it leads.
func withoutLinks(host string) error {
	real := leadsTo(host)
	if real == host {
		return nil
	}
	return fmt.Errorf("source %q has a symbolic link in it, which is not followed; write %q, where it leads: the plugin option volumes.paths has to cover that", host, real)
}

// leadsTo is the path without the links on it, or itself where it cannot be
// looked at, which is told when it is opened.
func leadsTo(host string) string {
	if real, err := filepath.EvalSymlinks(host); err == nil {
		return real
	}
	return host
}

// take claims a target.
func take(taken map[string]bool, target string) error {
	if taken[target] {
		return fmt.Errorf("something else is mounted at %s already; remove one of the two", target)
	}
	taken[target] = true
	return nil
}
