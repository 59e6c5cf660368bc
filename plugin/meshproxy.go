package plugin

import (
	"os"
	"path/filepath"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// meshBootstrap is the file that a Nomad client writes into the secrets folder
// of a proxy of Consul's service mesh, before the proxy starts, and of no other
// task.
const meshBootstrap = "envoy_bootstrap.json"

// isMeshProxy reports whether a task is a proxy of Consul's service mesh. What
// kind of task it is the protocol does not say.
func isMeshProxy(d taskpath.Dirs) bool {
	info, err := os.Lstat(filepath.Join(d.Secrets(), meshBootstrap))
	return err == nil && info.Mode().IsRegular()
}

// MeshProxyFault refuses a proxy of Consul's service mesh that would itself run
// in a sandbox.
func MeshProxyFault() Fault {
	return Fault{"sidecar_task.driver", shown(Name), "a proxy of the service mesh serves in the group's network and speaks to Consul by a socket in /alloc/tmp; a sandbox has neither",
		`leave the driver out of the service's sidecar_task block, or write driver = "docker"`}
}
