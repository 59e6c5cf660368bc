package plugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func (a *ask) readDevices(v any, r LimitRules, f *faults) {
	list, err := mapList(deviceMaps(v))
	if err != nil {
		f.add("devices", nil, err.Error(), `write devices = [{ host_path = "/dev/fuse" }]`)
	}
	for _, m := range list {
		host, _ := scalar(m["host_path"])
		inside, _ := scalar(m["container_path"])
		mode, _ := scalar(m["cgroup_permissions"])
		d, err := deviceOf(host, inside, mode, r)
		if err = errors.Join(err, onlyKeys(m, "", deviceKeys...)); err != nil {
			f.addEach("devices", host, err)
			continue
		}
		a.Devices = append(a.Devices, d)
	}
}

// deviceMaps takes "host_path[:container_path[:cgroup_permissions]]", as podman's
// driver writes a device, for the map of that.
func deviceMaps(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
		text, ok := e.(string)
		if parts := strings.Split(text, ":"); ok && len(parts) <= len(deviceKeys) {
			m := map[string]any{}
			for k, part := range parts {
				m[deviceKeys[k]] = part
			}
			out[i] = m
		}
	}
	return out
}

var deviceKeys = []string{"host_path", "container_path", "cgroup_permissions"}

// deviceOf judges one device. Making device nodes is never permitted, so the
// m that other drivers add says nothing here. The error joins all that is wrong.
func deviceOf(host, inside, mode string, r LimitRules) (runner.Device, error) {
	var errs []error
	if inside == "" {
		inside = host
	} else if !strings.HasPrefix(inside, "/dev/") || path.Clean(inside) != inside {
		errs = append(errs, fmt.Errorf("container_path %q: want a path below /dev", inside))
	}
	switch {
	case host == "":
		return runner.Device{}, fmt.Errorf("host_path is missing")
	case slices.ContainsFunc(neverDevices, func(n string) bool { return glob(n, host) }):
		errs = append(errs, fmt.Errorf("it reaches the host's memory or disks, and no operator can allow it; remove it"))
	case path.Clean(host) != host || !slices.ContainsFunc(r.Devices, func(p string) bool { return path.Dir(p) == path.Dir(host) && glob(p, host) }):
		errs = append(errs, fmt.Errorf("the operator does not allow it (plugin option allow_devices); remove it, or have it listed there"))
	}
	if strings.Trim(mode, "rwm") != "" {
		errs = append(errs, fmt.Errorf(`cgroup_permissions %q: want letters of "rw"`, mode))
	}
	if mode = strings.ReplaceAll(mode, "m", ""); mode == "" {
		mode = "rw"
	}
	return runner.Device{Host: host, Target: inside, Permissions: mode}, errors.Join(errs...)
}

// readDevices reads the devices that Nomad's device plugins reserved.
func (g *given) readDevices(devices []*driverpb.Device, r LimitRules, f *faults) {
	for _, d := range devices {
		dev, err := deviceOf(d.GetHostPath(), d.GetTaskPath(), d.GetCgroupPermissions(), r)
		if err != nil {
			f.addEach("device", d.GetHostPath(), err)
			continue
		}
		g.Devices = append(g.Devices, dev)
	}
}

// checkDevices judges what is really at the paths of a task's devices: names say
// little of it, since links lead from one to another.
func checkDevices(a ask, g given, check func(string) error, f *faults) {
	for i, d := range slices.Concat(a.Devices, g.Devices) {
		if check == nil {
			return
		}
		field := "devices"
		if i >= len(a.Devices) {
			field = "device"
		}
		if err := check(d.Host); err != nil {
			f.add(field, d.Host, err.Error(), "")
		}
	}
}

// noteGPU says that a GPU which Nomad's plugin for NVIDIA's reserved is not in the
// sandbox: that plugin sets a variable for a runtime of NVIDIA's and hands over no
// device.
func (a *ask) noteGPU(g given, pinned string) {
	const name = "NVIDIA_VISIBLE_DEVICES"
	if g.Env[name] == "" || len(a.Devices)+len(g.Devices) > 0 || strings.Contains(pinned, "nvidia") {
		return
	}
	a.note(name + " names GPUs, and the sandbox has none: only a runtime of NVIDIA's reads it; list the nodes in devices, within the plugin option allow_devices")
}
