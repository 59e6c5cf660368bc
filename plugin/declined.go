package plugin

import (
	"maps"
	"slices"
	"strings"
)

// refusal says why an option is not to be had, and what to do instead.
type refusal struct{ reason, instead string }

// declined are the options that are in the schema only to be refused by name:
// this driver's own that come later, and those that jobs for other container
// drivers use. An option that asks for nothing (false, "", an empty list) is
// not refused.
var declined = map[string]refusal{
	// Ours.
	"record": {"this version makes no recordings", "remove the line"},
	"setup":  {"this version has no setup step", "build it into the image, or run it in the task's own command"},

	// Ways round the sidecar.
	"network_mode":           {"the sandbox has a network of its own, on which only its proxy answers", "remove the line; list what the task may reach in egress.allow"},
	"network_aliases":        {"the sandbox has a network of its own, without neighbours", "remove the line"},
	"port_map":               {"where the task listens is written on the group's port", `write ports = ["db"] here and port "db" { to = 6379 } in the group's network block`},
	"ipv4_address":           {"addresses of a sandbox are the driver's", "remove the line"},
	"ipv6_address":           {"addresses of a sandbox are the driver's, and it has no IPv6", "remove the line"},
	"advertise_ipv6_address": {"a sandbox has no IPv6", "remove the line"},
	"mac_address":            {"addresses of a sandbox are the driver's", "remove the line"},
	"extra_hosts":            {"every name leads to the proxy, which looks it up itself", "list the host in egress.allow; an operator can pin its address with the plugin option private_hosts"},

	// Ways out of the sandbox; never.
	"privileged":       {"a privileged container has no walls; this is never available", "remove the line; single capabilities are cap_add"},
	"devices":          {"devices of the host are never shown to a sandbox", "remove the block"},
	"security_opt":     {"the security profile is the driver's", `remove the line; no-new-privileges is always on`},
	"userns_mode":      {"namespaces of the host are never shared", "remove the line"},
	"userns":           {"namespaces of the host are never shared", "remove the line"},
	"pid_mode":         {"namespaces of the host are never shared", "remove the line"},
	"ipc_mode":         {"namespaces of the host are never shared", "remove the line"},
	"uts_mode":         {"namespaces of the host are never shared", "remove the line"},
	"cgroupns":         {"the control group namespace is always private", "remove the line"},
	"group_add":        {"groups of the host are never added", "remove the line"},
	"apparmor_profile": {"the security profile is the driver's", "remove the line"},
	"selinux_opts":     {"the security profile is the driver's", "remove the line"},
	"isolation":        {"the kind of isolation is confinement", "write confinement instead"},

	// Mounts in other words.
	"volume_driver": {"volume drivers of the engine reach the host's file system", "use a host volume with volume_mount"},
	"storage_opt":   {"storage options are the operator's", "remove the block"},

	// The rest of what other drivers take.
	"logging":                   {"output goes to Nomad, and from there wherever the agent sends it", "remove the block; see nomad alloc logs"},
	"healthchecks":              {"health checks of the image are never run", "remove the block; use a check of the service block"},
	"cpuset_cpus":               {"cores are given out by Nomad", "write cores in the resources block"},
	"cpu_cfs_period":            {"the period is the driver's", "remove the line"},
	"memory_hard_limit":         {"it would go round the limits that Nomad counts", "write memory_max in the resources block"},
	"memory_reservation":        {"it would go round the limits that Nomad counts", "write memory, and memory_max above it, in the resources block"},
	"memory_swap":               {"sandboxes do not swap", "remove the line"},
	"memory_swappiness":         {"sandboxes do not swap", "remove the line"},
	"oom_score_adj":             {"it is the driver's", "remove the line"},
	"init_path":                 {"the sandbox's init is always the driver's own", "remove the line"},
	"working_dir":               {"here it has another name", "write work_dir"},
	"cwd":                       {"here it has another name", "write work_dir"},
	"container_exists_attempts": {"it has no meaning here", "remove the line"},
}

// asks reports whether an option's value asks for anything.
func asks(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != "" && v != "false"
	case []any:
		return slices.ContainsFunc(v, asks)
	case map[string]any:
		return len(v) > 0
	case int64:
		return v != 0
	case uint64:
		return v != 0
	}
	return true
}

// alwaysOn reports whether security_opt asks only for what every sandbox has.
func alwaysOn(v any) bool {
	list, ok := v.([]any)
	if !ok {
		return false
	}
	return !slices.ContainsFunc(list, func(o any) bool {
		s, _ := o.(string)
		name, value, _ := strings.Cut(strings.Replace(s, "=", ":", 1), ":")
		return name != "no-new-privileges" || value != "" && value != "true"
	})
}

// declinedFaults refuses every declined option that asks for something.
func declinedFaults(f *faults, opts map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		r, known := declined[name]
		v := opts[name]
		if !known || !asks(v) || name == "security_opt" && alwaysOn(v) {
			continue
		}
		f.add(name, v, r.reason, r.instead)
	}
}
