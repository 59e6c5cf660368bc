package jobfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// Inputs are what a template is rendered with.
type Inputs struct {
	// Lookup gives the task's environment and the node's attributes under the
	// names Nomad has for them.
	Lookup func(name string) (string, bool)
	// NomadVars are the Nomad variables, and Namespace is the job's, which holds
	// where a template names none.
	NomadVars NomadVars
	Namespace string
}

// varItems are a Nomad variable's items as templates have them.
type varItems map[string]varItem

// varItem prints as its value, in JSON too.
type varItem struct{ Key, Value string }

func (i varItem) String() string { return i.Value }

// MarshalJSON implements [json.Marshaler].
func (i varItem) MarshalJSON() ([]byte, error) { return json.Marshal(i.Value) }

// Keys are the items' keys, sorted.
func (v varItems) Keys() []string { return sortedKeys(v) }

// Values are the items' values, in the order of Keys.
func (v varItems) Values() []string {
	var out []string
	for _, k := range v.Keys() {
		out = append(out, v[k].Value)
	}
	return out
}

// Tuples are the items with K and V, in the order of Keys.
func (v varItems) Tuples() []struct{ K, V string } {
	var out []struct{ K, V string }
	for _, k := range v.Keys() {
		out = append(out, struct{ K, V string }{k, v[k].Value})
	}
	return out
}

// varMeta is an entry of a list of Nomad variables, and prints as its path.
type varMeta struct{ Namespace, Path string }

func (m varMeta) String() string { return m.Path }

// variableFunctions read the Nomad variables.
func variableFunctions(in Inputs) template.FuncMap {
	list := func(prefix ...string) ([]varMeta, error) {
		if len(prefix) > 1 {
			return nil, fmt.Errorf("one prefix or none is wanted, not %d", len(prefix))
		}
		return in.list(strings.Join(prefix, "")), nil
	}
	return template.FuncMap{
		"nomadVar": func(name string) (varItems, error) {
			if name == "" {
				return nil, nil
			}
			items := in.items(name)
			if items == nil {
				return nil, fmt.Errorf("there is no Nomad variable %q; %s", name, setVariable(name))
			}
			out := varItems{}
			for k, v := range items {
				out[k] = varItem{k, v}
			}
			return out, nil
		},
		"nomadVarExists": func(name string) bool {
			return in.items(name) != nil
		},
		"nomadVarList": list,
		"nomadVarListSafe": func(prefix ...string) ([]varMeta, error) {
			found, err := list(prefix...)
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("there is no Nomad variable below %q; %s", strings.Join(prefix, ""), setVariable("PATH"))
			}
			return found, err
		},
	}
}

// setVariable says how a run is given a Nomad variable.
func setVariable(path string) string {
	return fmt.Sprintf("run sets it with -nomad-var %s:KEY=VALUE or -nomad-var-file FILE", path)
}

// shortestHidden is the length from which a value is hidden, in bytes: hiding
// shorter ones would hide everything.
const shortestHidden = 4

// hide takes the values of the Nomad variables out of a text, as a client does
// in what it tells of a template.
func (in Inputs) hide(text string) string {
	var values []string
	for _, paths := range in.NomadVars {
		for _, items := range paths {
			values = slices.AppendSeq(values, maps.Values(items))
		}
	}
	// The longest first: others may be parts of it.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, v := range values {
		quoted := strconv.Quote(v)
		for _, form := range []string{v, quoted[1 : len(quoted)-1]} {
			if len(v) >= shortestHidden {
				text = strings.ReplaceAll(text, form, "(hidden)")
			}
		}
	}
	return text
}

// within gives the variables of the namespace in path@namespace.
func (in Inputs) within(name string) (vars map[string]map[string]string, namespace, path string) {
	path, namespace, _ = strings.Cut(name, "@")
	path = strings.Trim(path, "/")
	if namespace != "" && namespace != in.Namespace {
		return in.NomadVars[namespace], namespace, path
	}
	vars = maps.Clone(in.NomadVars[in.Namespace])
	if vars == nil {
		vars = map[string]map[string]string{}
	}
	maps.Copy(vars, in.NomadVars[""])
	return vars, in.Namespace, path
}

// items are those of a variable, nil when there is none.
func (in Inputs) items(name string) map[string]string {
	vars, _, path := in.within(name)
	return vars[path]
}

func (in Inputs) list(prefix string) []varMeta {
	vars, namespace, path := in.within(prefix)
	var out []varMeta
	for _, p := range sortedKeys(vars) {
		if strings.HasPrefix(p, path) {
			out = append(out, varMeta{namespace, p})
		}
	}
	return out
}

// unset tells which Nomad variable a call asks for that no one has set; "" is
// none, or one whose path is known at its rendering alone.
func (in Inputs) unset(function string, args []parse.Node) string {
	if function != "nomadVar" || len(args) != 1 {
		return ""
	}
	name, ok := args[0].(*parse.StringNode)
	if !ok || name.Text == "" {
		return ""
	}
	if in.items(name.Text) != nil {
		return ""
	}
	return name.Text
}
