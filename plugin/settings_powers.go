package plugin

import (
	"fmt"
	"path"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// powers are what a task has by the operator's leave, and the limits that only
// some tasks have. What is not set is not told.
func (s *settingList) powers(j judged, box runner.SandboxSpec, h HostConfig) {
	s.section = "limits"
	p := box.Task
	for i, d := range p.Devices {
		by, why := ByAuthor, "devices, which the plugin option allow_devices allows"
		if i >= len(j.ask.Devices) {
			by, why = ByNomad, "resources.device"
		}
		s.add("device "+d.Target, d.Host+" ("+d.Permissions+")", by, why)
	}
	if len(p.GroupAdd) > 0 {
		s.add("groups", strings.Join(p.GroupAdd, ", "), ByAuthor, "group_add")
	}
	if p.AppArmor != "" {
		s.add("AppArmor profile", p.AppArmor, ByAuthor, "apparmor_profile")
	}
	if p.SeccompFile != "" {
		s.add("seccomp profile", path.Base(p.SeccompFile), ByAuthor, "security_opt, of the plugin option seccomp_profiles")
	}
	if p.OOMScoreAdj > runner.AgentOOMScore {
		s.add("oom_score_adj", fmt.Sprint(p.OOMScoreAdj), ByAuthor, "")
	}
	if p.NoNetwork {
		s.add("network", "none", ByAuthor, "network_mode")
	}
	if p.StopSignal != "" {
		s.add("stop_signal", p.StopSignal, ByAuthor, "")
	}
	if box.Resources.DiskMiB > 0 {
		by, why := ByAuthor, "storage_opt"
		if box.Resources.DiskMiB == h.Disk.MaxMiB {
			by, why = ByOperator, "plugin option max_disk"
		}
		s.add("disk", fmt.Sprintf("%d MiB", box.Resources.DiskMiB), by, why)
	}
}
