package plugin

import (
	"maps"
	"slices"
)

// refusal says why an option is not to be had, and what to do instead.
type refusal struct{ reason, instead string }

// declined are the options that are in the schema only to be refused by name:
// this driver's own that come later, and those that jobs for other container
// drivers use. An option that asks for nothing (false, "", an empty list) is
// not refused.
var declined = map[string]refusal{
	// Ways round the sidecar.
	"network_aliases":        {"the sandbox has a network of its own, without neighbours", "remove the line"},
	"port_map":               {"where the task listens is written on the group's port", `write ports = ["db"] here and port "db" { to = 6379 } in the group's network block`},
	"ipv4_address":           {"addresses of a sandbox are the driver's", "remove the line"},
	"ipv6_address":           {"addresses of a sandbox are the driver's, and it has no IPv6", "remove the line"},
	"advertise_ipv6_address": {"a sandbox has no IPv6", "remove the line"},
	"mac_address":            {"addresses of a sandbox are the driver's", "remove the line"},
	"extra_hosts":            {"every name leads to the proxy, which looks it up itself", "list the host in egress.allow; an operator can pin its address with the plugin option private_hosts"},

	// Ways out of the sandbox; never.
	"privileged":   {"a privileged container has no walls; this is never available", "remove the line; single capabilities are cap_add"},
	"userns_mode":  {"namespaces of the host are never shared", "remove the line"},
	"userns":       {"namespaces of the host are never shared", "remove the line"},
	"pid_mode":     {"namespaces of the host are never shared", "remove the line"},
	"ipc_mode":     {"namespaces of the host are never shared", "remove the line"},
	"uts_mode":     {"namespaces of the host are never shared", "remove the line"},
	"cgroupns":     {"the control group namespace is always private", "remove the line"},
	"selinux_opts": {"the security profile is the driver's", "remove the line"},
	"isolation":    {"the kind of isolation is confinement", "write confinement instead"},

	// Mounts in other words.
	"volume_driver": {"volume drivers of the engine reach the host's file system", "use a host volume with volume_mount"},

	// The rest of what other drivers take.
	"cpu_cfs_period":            {"the period is the driver's", "remove the line"},
	"memory_hard_limit":         {"it would go round the limits that Nomad counts", "write memory_max in the resources block"},
	"memory_reservation":        {"it would go round the limits that Nomad counts", "write memory, and memory_max above it, in the resources block"},
	"memory_swap":               {"sandboxes do not swap", "remove the line"},
	"memory_swappiness":         {"sandboxes do not swap", "remove the line"},
	"init_path":                 {"the sandbox's init is always the driver's own", "remove the line"},
	"working_dir":               {"here it has another name", "write work_dir"},
	"cwd":                       {"here it has another name", "write work_dir"},
	"seccomp":                   {"profiles are chosen by name", `write security_opt = ["seccomp=NAME"] with a name of the operator's`},
	"seccomp_profile":           {"profiles are chosen by name", `write security_opt = ["seccomp=NAME"] with a name of the operator's`},
	"host_network":              {"the sandbox has a network of its own, on which only its proxy answers", "remove the line; list what the task may reach in egress.allow"},
	"host_dns":                  {"the sandbox's resolver is its proxy", "remove the line"},
	"static_ips":                {"addresses of a sandbox are the driver's", "remove the line"},
	"static_mac":                {"addresses of a sandbox are the driver's", "remove the line"},
	"arch":                      {"a sandbox runs what the node runs", "name an image, or a digest of it, made for the node"},
	"os":                        {"a sandbox runs what the node runs", "name an image, or a digest of it, made for the node"},
	"platform":                  {"a sandbox runs what the node runs", "name an image, or a digest of it, made for the node"},
	"socket":                    {"there is one engine, which the operator names", "remove the line"},
	"variant":                   {"a sandbox runs what the node runs", "name an image, or a digest of it, made for the node"},
	"unveil":                    {"paths of the host are not shown", "use volumes, or a host volume with volume_mount"},
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

// declinedFaults refuses every declined option that asks for something.
func declinedFaults(f *faults, opts map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		r, known := declined[name]
		v := opts[name]
		if !known || !asks(v) {
			continue
		}
		f.add(name, v, r.reason, r.instead)
	}
}
