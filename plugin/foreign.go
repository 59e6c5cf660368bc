package plugin

// foreign are options that operators set for other drivers, by their names
// there, and what takes their place. They are in no schema: an agent stops at
// an option that a plugin does not know, and only validate and doctor can say
// more than that.
var foreign = map[string]string{
	"allow_privileged":                       "nothing is ever privileged; single capabilities are allow_caps",
	"allow_runtimes":                         "runtimes are chosen by class: confinement { runtimes { ... } }",
	"nvidia_runtime":                         "runtimes are chosen by class: confinement { runtimes { ... } }; devices are allow_devices",
	"containerd_runtime":                     "runtimes are chosen by class: confinement { runtimes { ... } }",
	"allowed_modes":                          "namespaces of the host are never shared; remove the line",
	"infra_image":                            "the driver carries its own image; remove the line",
	"infra_image_pull_timeout":               "the driver carries its own image; remove the line",
	"container_exists_attempts":              "names are the driver's own, and what is left under one is removed at a start; remove the line",
	"pids_limit":                             "write max_pids",
	"oom_score_adj":                          "a sandbox's is 300, and its job may raise it; remove the line",
	"logging":                                "the backlog is sized by the task's own logging; remove the block",
	"disable_log_collection":                 "Nomad's own logs { disabled = true } of a task is honoured; remove the line",
	"gc.container":                           "containers always go with their task; what is left over goes by reaper",
	"gc.dangling_containers":                 "what is left over goes by reaper",
	"tls":                                    "the engine is a local one: endpoint = \"unix:///path/to/docker.sock\"",
	"socket":                                 "there is one engine: endpoint = \"unix:///path/to/docker.sock\"",
	"socket_path":                            "there is one engine: endpoint = \"unix:///path/to/docker.sock\"",
	"client_http_timeout":                    "pulls have image_pull_timeout and pull_activity_timeout, and no other limit; remove the line",
	"recover_stopped":                        "recovery starts nothing; remove the line",
	"dns_servers":                            "the sidecar resolves as the node does; remove the line",
	"networking":                             "every sandbox has a network of its own; remove the block",
	"stats_interval":                         "the client's telemetry interval counts; remove the line",
	"enabled":                                "a plugin is off when the agent has no block for it",
	"unveil_defaults":                        "paths of the host are volumes { paths }; remove the line",
	"unveil_paths":                           "write volumes { paths = [...] }",
	"unveil_by_task":                         "paths of the host are volumes { paths }, for every task; remove the line",
	"image_paths":                            "images come from registries and from load; rules for them are images { ... }",
	"windows_allow_insecure_container_admin": "there are no Windows containers here; remove the line",
}

// explainForeign puts what takes an option's place into the complaint that there
// is none of its name.
func explainForeign(list []Fault) {
	for i, f := range list {
		if instead, ok := foreign[f.Field]; ok && f.Reason == noSuchOption {
			list[i].Reason, list[i].Fix = "this is an option of another driver", instead
		}
	}
}
