package plugin

import "fmt"

// ParseHostConfig decodes and checks the operator's options as a parser of
// agent files leaves them, the way an agent would: for commands that work
// beside a plugin.
func ParseHostConfig(config map[string]any) (HostConfig, error) {
	h, found := ReviewHostConfig(config)
	f := &faults{what: "the plugin's config", list: found}
	return h, f.err()
}

// ReviewHostConfig is ParseHostConfig with the faults one by one, unknown
// options among them: on those an agent does not start, before it has asked the
// plugin. With faults the HostConfig has what was right.
func ReviewHostConfig(config map[string]any) (HostConfig, []Fault) {
	f := &faults{what: "the plugin's config"}
	o, err := readOptions(configSpec(), config, nil, f)
	explainForeign(f.list)
	if err != nil {
		f.add("config", nil, fmt.Sprintf("it cannot be read: %v", err), "")
		return HostConfig{}, f.list
	}
	var c Config
	var misfit faults
	if err := misfit.read(o.data, &c); err != nil {
		f.add("config", nil, err.Error(), "")
		return HostConfig{}, f.list
	}
	h, values := judgeHostConfig(c)
	return h, append(f.list, values.after(misfit.list).list...)
}
