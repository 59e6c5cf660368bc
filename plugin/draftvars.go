package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
)

// variables is what the config may refer to. What only a client knows is
// unknown, and so is everything that depends on it.
func (d Draft) variables() map[string]cty.Value {
	vars := hclconf.Scope{Env: d.Env}.Variables()
	for _, facts := range []string{"node", "attr", "meta", "secret"} {
		vars[facts] = cty.DynamicVal
	}
	for _, ref := range references(d.Config) {
		name := ref.RootName()
		if name == "env" && len(ref) > 1 {
			if step, ok := ref[1].(hcl.TraverseIndex); ok && step.Key.Type() == cty.String {
				name = step.Key.AsString()
				if _, known := d.Env[name]; !known && d.comesLater(name) {
					vars["env"] = cty.DynamicVal
				}
				continue
			}
		}
		if _, known := vars[name]; !known && d.comesLater(name) {
			vars[name] = cty.DynamicVal
		}
	}
	return vars
}

// environment is all variables that a client is known to give the task.
func (d Draft) environment() map[string]string {
	env := map[string]string{}
	for _, name := range d.Tokens {
		env[name] = ""
	}
	maps.Copy(env, d.Env)
	return env
}

// comesLater: a client may have a variable of this name although the job file
// does not show it.
func (d Draft) comesLater(name string) bool {
	for _, prefix := range []string{"NOMAD_UPSTREAM_", "NOMAD_TOKEN", "NOMAD_ALLOC_IP_", "NOMAD_ALLOC_PORT_", "NOMAD_ALLOC_ADDR_", "VAULT_", "CONSUL_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	if strings.HasPrefix(name, "NOMAD_META_") {
		return d.Dispatched
	}
	ofPort := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if d.OpenPorts && slices.ContainsFunc([]string{"NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_IP_", "NOMAD_HOST_IP_", "NOMAD_ADDR_", "NOMAD_HOST_ADDR_"}, ofPort) {
		return true
	}
	return d.OpenEnv && !strings.HasPrefix(name, "NOMAD_")
}

// references are all that the strings in a config refer to.
func references(v any) []hcl.Traversal {
	switch v := v.(type) {
	case string:
		// One that does not parse is complained of where it is decoded.
		if e, diags := hclsyntax.ParseTemplate([]byte(v), "config", hcl.InitialPos); !diags.HasErrors() {
			return e.Variables()
		}
	case []any:
		var out []hcl.Traversal
		for _, e := range v {
			out = append(out, references(e)...)
		}
		return out
	case map[string]any:
		return references(slices.Collect(maps.Values(v)))
	}
	return nil
}

func root(field string) string {
	name, _, _ := strings.Cut(field, ".")
	return name
}

// isAbout reports whether a fault's field, or one of "command, args", belongs
// to one of the options.
func isAbout(field string, options []string) bool {
	for name := range strings.SplitSeq(field, ", ") {
		if slices.Contains(options, root(name)) {
			return true
		}
	}
	return false
}
