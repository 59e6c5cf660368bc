package jobfile

// verdict says what becomes of a name in a job file.
type verdict int

const (
	use     verdict = iota // read
	skip                   // no effect on one node, and nobody expects one
	ignored                // no effect here, told to the user
	refused                // would be needed and is not offered: the job is not run
)

// rule is the verdict on one name and, when told, its reason.
type rule struct {
	verdict verdict
	why     string
}

// table holds the names that one kind of block knows. A name may be there as
// an attribute and as a block.
type table struct {
	attrs, blocks map[string]rule
}

// plainBlocks are those that are read and have no label, wherever they stand.
var plainBlocks = map[string]bool{
	"check": true, "check_restart": true, "config": true, "dispatch_payload": true, "dns": true, "env": true, "header": true,
	"identity": true, "lifecycle": true, "locals": true, "logs": true, "meta": true, "mount_options": true, "network": true,
	"parameterized": true, "resources": true, "restart": true, "service": true, "template": true, "volume_mount": true,
}

func (t table) names() []string {
	return append(sortedKeys(t.attrs), sortedKeys(t.blocks)...)
}

const (
	noServers    = "there are no Nomad servers"
	noConsul     = "there is no Consul"
	noVault      = "there is no Vault"
	onePlacement = "there is one node to run on"
	oneVersion   = "each run is a first version"
	noClient     = "there is no client configuration to name it"
)

var fileRules = table{blocks: map[string]rule{"job": {}, "variable": {}, "variables": {}, "locals": {}}}

var jobRules = table{
	attrs: map[string]rule{
		"id": {}, "name": {}, "type": {}, "namespace": {}, "meta": {},
		"all_at_once": {verdict: skip}, "datacenters": {verdict: skip}, "node_pool": {verdict: skip},
		"priority": {verdict: skip}, "region": {},
		"consul_token": {refused, noConsul}, "vault_token": {refused, noVault},
	},
	blocks: map[string]rule{
		"group": {}, "meta": {},
		"affinity": {verdict: skip}, "spread": {verdict: skip}, "ui": {verdict: skip},
		"constraint": {ignored, onePlacement}, "migrate": {ignored, onePlacement},
		"reschedule": {ignored, onePlacement}, "multiregion": {ignored, onePlacement},
		"update":        {ignored, oneVersion},
		"periodic":      {ignored, "the job runs once, now"},
		"parameterized": {},
		"task":          {refused, "put the task into a group"},
		"vault":         {refused, noVault},
	},
}

var groupRules = table{
	attrs: map[string]rule{
		"count": {}, "meta": {},
		"max_client_disconnect":        {verdict: skip},
		"prevent_reschedule_on_lost":   {verdict: skip},
		"stop_after_client_disconnect": {verdict: skip},
		"shutdown_delay":               {ignored, "no service is registered that traffic would have to leave"},
	},
	blocks: map[string]rule{
		"task": {}, "meta": {}, "network": {}, "restart": {},
		"affinity": {verdict: skip}, "spread": {verdict: skip}, "disconnect": {verdict: skip}, "scaling": {verdict: skip},
		"constraint": {ignored, onePlacement}, "migrate": {ignored, onePlacement}, "reschedule": {ignored, onePlacement},
		"update":         {ignored, oneVersion},
		"ephemeral_disk": {ignored, "the allocation directory has no size limit and is not kept"},
		"service":        {}, "volume": {},
		"consul": {refused, noConsul}, "vault": {refused, noVault},
	},
}

var taskRules = table{
	attrs: map[string]rule{
		"driver": {}, "user": {}, "env": {}, "meta": {}, "kill_timeout": {}, "kill_signal": {}, "leader": {},
		"kind":           {refused, "it marks proxies of a service mesh, and " + noConsul},
		"shutdown_delay": {ignored, "no service is registered that traffic would have to leave"},
	},
	blocks: map[string]rule{
		"config": {}, "env": {}, "meta": {}, "template": {}, "resources": {}, "logs": {}, "restart": {}, "lifecycle": {}, "service": {}, "identity": {},
		"affinity": {verdict: skip}, "scaling": {verdict: skip}, "schedule": {verdict: skip},
		"constraint":       {ignored, onePlacement},
		"action":           {ignored, "there is no user interface; use -exec"},
		"artifact":         {refused, "nothing is downloaded; render the file with a template or put it into the image"},
		"consul":           {refused, noConsul},
		"csi_plugin":       {refused, "there is no client to register it with"},
		"dispatch_payload": {},
		"secret":           {refused, "no secret provider is asked"},
		"vault":            {refused, noVault},
		"volume_mount":     {},
	},
}

var identityRules = table{attrs: map[string]rule{
	"name": {}, "aud": {}, "env": {}, "file": {}, "filepath": {}, "ttl": {}, "change_mode": {}, "change_signal": {},
	"service_name": {verdict: skip},
	"extra_claims": {ignored, "there is no namespace that would define them"},
}}

var serviceRules = table{
	attrs: map[string]rule{
		"name": {}, "provider": {}, "port": {}, "tags": {verdict: skip},
		"task": {}, "address": {}, "address_mode": {},
		"canary_tags": {verdict: skip}, "canary_meta": {verdict: skip}, "cluster": {verdict: skip}, "enable_tag_override": {verdict: skip},
		"kind": {verdict: skip}, "meta": {verdict: skip}, "on_update": {}, "tagged_addresses": {verdict: skip},
	},
	blocks: map[string]rule{
		"check": {}, "check_restart": {}, "identity": {verdict: skip},
		"canary_meta": {verdict: skip}, "meta": {verdict: skip}, "tagged_addresses": {verdict: skip}, "weights": {verdict: skip},
		"connect": {refused, noConsul + ", hence no service mesh"},
	},
}

var connectRules = table{
	attrs:  map[string]rule{"native": {}},
	blocks: map[string]rule{"sidecar_service": {}, "sidecar_task": {}, "gateway": {verdict: skip}},
}

var sidecarTaskRules = table{
	attrs: map[string]rule{
		"driver": {}, "name": {verdict: skip}, "user": {verdict: skip}, "env": {verdict: skip}, "meta": {verdict: skip},
		"kill_signal": {verdict: skip}, "kill_timeout": {verdict: skip}, "shutdown_delay": {verdict: skip},
	},
	blocks: map[string]rule{
		"config": {verdict: skip}, "env": {verdict: skip}, "identity": {verdict: skip}, "logs": {verdict: skip}, "meta": {verdict: skip},
		"resources": {verdict: skip}, "volume_mount": {verdict: skip},
	},
}

var sidecarRules = table{
	attrs: map[string]rule{
		"port": {verdict: skip}, "tags": {verdict: skip}, "disable_default_tcp_check": {verdict: skip}, "meta": {verdict: skip},
	},
	blocks: map[string]rule{"proxy": {}, "meta": {verdict: skip}},
}

var meshProxyRules = table{
	attrs: map[string]rule{
		"local_service_address": {verdict: skip}, "local_service_port": {verdict: skip}, "config": {verdict: skip},
	},
	blocks: map[string]rule{
		"upstreams": {}, "transparent_proxy": {}, "expose": {verdict: skip}, "config": {verdict: skip},
	},
}

var upstreamRules = table{
	attrs: map[string]rule{
		"destination_name": {}, "local_bind_port": {}, "datacenter": {verdict: skip}, "local_bind_address": {verdict: skip},
		"destination_namespace": {verdict: skip}, "destination_partition": {verdict: skip}, "destination_peer": {verdict: skip}, "destination_type": {verdict: skip},
		"local_bind_socket_path": {verdict: skip}, "local_bind_socket_mode": {verdict: skip}, "config": {verdict: skip},
	},
	blocks: map[string]rule{"mesh_gateway": {verdict: skip}, "config": {verdict: skip}},
}

var networkRules = table{
	attrs: map[string]rule{"mode": {}, "hostname": {}, "mbits": {verdict: skip}},
	blocks: map[string]rule{
		"port": {}, "dns": {},
		"cni": {refused, "no CNI plugin is run"},
	},
}

var portRules = table{attrs: map[string]rule{
	"static": {}, "to": {}, "ignore_collision": {verdict: skip},
	"host_network": {ignored, noClient},
}}

var dnsRules = table{attrs: map[string]rule{"servers": {}, "searches": {}, "options": {}}}

var resourceRules = table{
	attrs: map[string]rule{
		"cpu": {}, "cores": {}, "memory": {}, "memory_max": {},
		"disk": {verdict: skip}, "iops": {verdict: skip}, "secrets": {verdict: skip},
	},
	blocks: map[string]rule{
		"numa":    {ignored, "cores are taken as they come"},
		"device":  {refused, "no device plugin is run"},
		"network": {refused, "ports belong in the group's network block"},
	},
}

var parameterizedRules = table{attrs: map[string]rule{"payload": {}, "meta_required": {}, "meta_optional": {}}}

var dispatchPayloadRules = table{attrs: map[string]rule{"file": {}}}

var volumeRules = table{
	attrs: map[string]rule{
		"type": {}, "source": {}, "read_only": {}, "per_alloc": {},
		"access_mode": {verdict: skip}, "attachment_mode": {verdict: skip}, "sticky": {verdict: skip},
	},
	blocks: map[string]rule{"mount_options": {}},
}

var volumeMountRules = table{attrs: map[string]rule{
	"volume": {}, "destination": {}, "read_only": {}, "propagation_mode": {}, "selinux_label": {verdict: skip},
}}

var logRules = table{
	attrs:  map[string]rule{"max_files": {}, "max_file_size": {}, "disabled": {}, "enabled": {}},
	blocks: map[string]rule{},
}

var restartRules = table{attrs: map[string]rule{
	"attempts": {}, "interval": {}, "delay": {}, "mode": {}, "render_templates": {verdict: skip},
}}

var lifecycleRules = table{attrs: map[string]rule{"hook": {}, "sidecar": {}}}

var templateRules = table{
	attrs: map[string]rule{
		"data": {}, "destination": {}, "perms": {}, "env": {}, "left_delimiter": {}, "right_delimiter": {},
		"change_mode": {}, "change_signal": {}, "error_on_missing_key": {}, "uid": {}, "gid": {},
		"once": {verdict: skip}, "splay": {verdict: skip}, "vault_grace": {verdict: skip}, "wait": {verdict: skip},
		"source": {refused, "write the template into data, or read it with data = file(\"...\")"},
	},
	blocks: map[string]rule{
		"wait": {verdict: skip}, "change_script": {verdict: skip},
	},
}
