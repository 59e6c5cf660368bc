package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// configure lays out an agent's folders. It is a server as well when it has
// none yet.
func (n *Nomad) configure(t testing.TB, name, plugin, pluginConfig string, extra ...string) {
	t.Helper()
	ports := freePorts(t, 3)
	role := "enabled = false"
	if n.rpc == 0 {
		n.rpc, role = ports[1], "enabled = true\n  bootstrap_expect = 1"
	}
	n.Addr = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	plugins := filepath.Join(n.Dir, "plugins")
	must(t, os.MkdirAll(plugins, 0o755))
	must(t, copyFile(plugin, filepath.Join(plugins, "nomad-driver-wardyn")))
	config := filepath.Join(n.Dir, "config")
	must(t, os.Mkdir(config, 0o755))
	for i, text := range extra {
		must(t, os.WriteFile(filepath.Join(config, fmt.Sprintf("extra%d.hcl", i)), []byte(text), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(config, "agent.hcl"), fmt.Appendf(nil, agentConfig,
		name, filepath.Join(n.Dir, "data"), plugins, ports[0], ports[1], ports[2], role, n.rpc, pluginConfig), 0o600))
}

// agentConfig is an agent's file.
const agentConfig = `
name       = %q
data_dir   = %q
plugin_dir = %q
bind_addr  = "127.0.0.1"
log_level  = "DEBUG"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  %s
}
client {
  enabled          = true
  network_interface = "lo"
  servers          = ["127.0.0.1:%d"]
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  }
}
plugin "nomad-driver-wardyn" {
  config {
    %s
  }
}
`

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}
