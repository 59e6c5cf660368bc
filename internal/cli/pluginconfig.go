package cli

import (
	"fmt"
	"os"
	"sort"
	"strings"

	hcl1 "github.com/hashicorp/hcl"
)

// pluginName is the label of the plugin block: the file name of this program.
const pluginName = "nomad-driver-wardyn"

// loadPluginConfig reads the plugin's options from a file; "" gives none.
func loadPluginConfig(path string) (map[string]any, error) {
	config, _, err := readPluginConfig(path)
	return config, err
}

// readPluginConfig reads them together with their lines.
func readPluginConfig(path string) (map[string]any, configLines, error) {
	if path == "" {
		return map[string]any{}, nil, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("plugin config: %w", err)
	}
	config, err := parsePluginConfig(src)
	if err != nil {
		return nil, nil, fmt.Errorf("plugin config %s: %w", path, err)
	}
	return config, linesOf(src), nil
}

// parsePluginConfig takes either the bare options or a Nomad agent's
// configuration with a plugin block. Nomad reads agent files with version 1 of
// HCL, so this does: blocks and objects become lists of maps, and keys may be
// quoted.
func parsePluginConfig(src []byte) (map[string]any, error) {
	file := map[string]any{}
	if err := hcl1.Unmarshal(src, &file); err != nil {
		return nil, err
	}
	plugins, isAgent := file["plugin"]
	if !isAgent {
		return file, notAnAgent(file)
	}
	var labels []string
	config := map[string]any{}
	found := false
	for _, block := range objects(plugins) {
		for label, body := range block {
			labels = append(labels, label)
			if label != pluginName {
				continue
			}
			found = true
			for _, b := range objects(body) {
				for _, c := range objects(b["config"]) {
					config = c // as in an agent, the last one holds
				}
			}
		}
	}
	if !found {
		sort.Strings(labels)
		return nil, fmt.Errorf("there is no plugin block labelled %q, only %s", pluginName, strings.Join(labels, ", "))
	}
	return config, nil
}

// agentOnly are options of an agent that no plugin has: tls is also the docker
// driver's, of which there is more to say.
var agentOnly = []string{"bind_addr", "client", "datacenter", "server", "advertise", "addresses", "region", "plugin_dir", "log_level", "consul", "vault", "acl", "telemetry"}

// notAnAgent refuses an agent's configuration whose plugin block is missing,
// rather than take the agent's options for the plugin's.
func notAnAgent(file map[string]any) error {
	var found []string
	for _, name := range agentOnly {
		if _, ok := file[name]; ok {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("it is an agent's configuration (%s) without a plugin block: add plugin %q { config { ... } }, or name the file that has it", strings.Join(found, ", "), pluginName)
}

// objects gives the maps in a value of HCL 1, where every object is a list.
func objects(v any) []map[string]any {
	switch v := v.(type) {
	case []map[string]any:
		return v
	case map[string]any:
		return []map[string]any{v}
	default:
		return nil
	}
}
