package plugin

import (
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// LimitHostConfig is the part of the plugin's config that opens devices,
// groups and security profiles.
type LimitHostConfig struct {
	AllowDevices     []string `codec:"allow_devices"`
	AllowGroups      []int64  `codec:"allow_groups"`
	AppArmorProfiles []string `codec:"apparmor_profiles"`
	SeccompProfiles  any      `codec:"seccomp_profiles"`
	ExtraLabels      []string `codec:"extra_labels"`
}

// addLimitHost adds the schema of LimitHostConfig.
func addLimitHost(s map[string]*hclspec.Spec) {
	s["allow_devices"] = hclspec.Attr("allow_devices", hclspec.StringList)
	s["allow_groups"] = hclspec.Attr("allow_groups", "list(number)")
	s["apparmor_profiles"] = hclspec.Attr("apparmor_profiles", hclspec.StringList)
	s["seccomp_profiles"] = hclspec.Attr("seccomp_profiles", hclspec.Any)
	s["extra_labels"] = hclspec.Attr("extra_labels", hclspec.StringList)
}

// LimitRules are the operator's decisions about devices, groups and profiles.
type LimitRules struct {
	// Devices are host paths of devices that jobs may have; a star in the last
	// element stands for any text.
	Devices []string
	// Groups are ids of the host's groups that jobs may join.
	Groups []int64
	// AppArmor are names of loaded profiles, Seccomp files by the names that
	// jobs know them by.
	AppArmor []string
	Seccomp  map[string]string
	// ExtraLabels are what containers carry beside; see extraLabels.
	ExtraLabels []string
}

// neverDevices hand over the host's memory or disks, whatever an operator lists.
var neverDevices = []string{"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/mapper/*", "/dev/sd*", "/dev/nvme*", "/dev/vd*", "/dev/xvd*", "/dev/dm-*", "/dev/loop*", "/dev/md*"}

var profileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}$`)

// limitRules reads the operator's lists.
func limitRules(f *faults, c LimitHostConfig) LimitRules {
	r := LimitRules{Devices: c.AllowDevices, Groups: c.AllowGroups, AppArmor: c.AppArmorProfiles, ExtraLabels: c.ExtraLabels}
	for _, d := range c.AllowDevices {
		switch {
		case !strings.HasPrefix(d, "/dev/") || path.Clean(d) != d || strings.Contains(path.Dir(d), "*"):
			f.add("allow_devices", d, "want a path below /dev, with a star in its last element at most", `for instance "/dev/dri/render*"`)
		case slices.ContainsFunc(neverDevices, func(n string) bool { return glob(n, d) || glob(d, strings.TrimSuffix(n, "*")) }):
			f.add("allow_devices", d, "it reaches the host's memory or disks", "list single devices")
		}
	}
	for _, g := range c.AllowGroups {
		if g < 1 || g > math.MaxInt32 {
			f.add("allow_groups", g, "want ids of groups, and never root's", "")
		}
	}
	for _, n := range c.AppArmorProfiles {
		if !profileName.MatchString(n) || n == "unconfined" {
			f.add("apparmor_profiles", n, "want the name of a loaded profile", "unconfined is no profile")
		}
	}
	var err error
	if r.Seccomp, err = stringMap(c.SeccompProfiles); err != nil {
		f.add("seccomp_profiles", nil, err.Error(), `write seccomp_profiles { strict = "/etc/wardyn/strict.json" }`)
	}
	for _, n := range slices.Sorted(maps.Keys(r.Seccomp)) {
		if !profileName.MatchString(n) || n == "unconfined" || !path.IsAbs(r.Seccomp[n]) {
			f.add("seccomp_profiles."+n, r.Seccomp[n], "want a name and the absolute path of a profile", "")
		}
	}
	for _, l := range c.ExtraLabels {
		if !slices.ContainsFunc(extraLabelNames, func(n string) bool { return glob(l, n) }) {
			f.add("extra_labels", l, "no such label", "there are "+strings.Join(extraLabelNames, ", "))
		}
	}
	return r
}

// extraLabelNames are the names that other drivers give these labels.
var extraLabelNames = []string{"job_name", "job_id", "parent_job_id", "task_group_name", "task_name", "namespace", "node_name", "node_id"}

// extraLabels are the labels that the operator wants on containers, under the
// names that log shippers know, in our own namespace: Nomad's docker driver
// removes containers that carry Nomad's.
func extraLabels(t *driverpb.TaskConfig, r LimitRules) map[string]string {
	out := map[string]string{}
	for name, v := range map[string]string{
		"job_name": t.GetJobName(), "job_id": t.GetJobId(), "parent_job_id": t.GetParentJobId(),
		"task_group_name": t.GetTaskGroupName(), "task_name": t.GetName(), "namespace": t.GetNamespace(),
		"node_name": t.GetNodeName(), "node_id": t.GetNodeId(),
	} {
		if slices.ContainsFunc(r.ExtraLabels, func(l string) bool { return glob(l, name) }) {
			out["wardyn."+name] = v
		}
	}
	return out
}
