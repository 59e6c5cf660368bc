package jobfile

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// NomadVars are Nomad variables, which a cluster keeps for its jobs: items by
// namespace and path. The namespace "" is the job's own, whatever it is called.
// They have nothing to do with a job file's variables.
type NomadVars map[string]map[string]map[string]string

var (
	varPath = regexp.MustCompile(`^[a-zA-Z0-9-_~/]{1,128}$`) // as a Nomad server has it
	varKey  = regexp.MustCompile(`^[\pL_][\pL\pN_.-]*$`)
)

// Set sets one item of a variable.
func (v NomadVars) Set(namespace, path, key, value string) error {
	if !varPath.MatchString(path) {
		return fmt.Errorf("path %q: want 1 to 128 of A-Z a-z 0-9 - _ ~ /", path)
	}
	if !varKey.MatchString(key) {
		return fmt.Errorf("%s: key %q: want a letter or _, then letters, digits and _ . -", path, key)
	}
	if v[namespace] == nil {
		v[namespace] = map[string]map[string]string{}
	}
	if path = strings.Trim(path, "/"); v[namespace][path] == nil {
		v[namespace][path] = map[string]string{}
	}
	v[namespace][path][key] = value
	return nil
}

// ReadFile adds the variable that a file describes: path, perhaps namespace, and
// items, as nomad var put takes it in HCL and nomad var get prints it in JSON
// (for which the name ends in .json).
func (v NomadVars) ReadFile(file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	spec, err := readVarFile(file, src)
	if err != nil {
		return err
	}
	if len(spec.Items) == 0 {
		return fmt.Errorf(`%s: there are no items: items { key = "value" }`, file)
	}
	for _, key := range sortedKeys(spec.Items) {
		if err := v.Set(spec.Namespace, spec.Path, key, spec.Items[key]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// varFile is a file that describes a variable.
type varFile struct {
	Namespace string
	Path      string
	Items     map[string]string
}

func readVarFile(name string, src []byte) (spec varFile, err error) {
	if strings.HasSuffix(name, ".json") {
		if err := json.Unmarshal(src, &spec); err != nil {
			return spec, fmt.Errorf("%s: %w", name, err)
		}
		return spec, nil
	}
	r := report{src: src}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if r.diags(diags) {
		return spec, r.err()
	}
	var form struct {
		Namespace string `hcl:"namespace,optional"`
		Path      string `hcl:"path"`
		Items     struct {
			Rest hcl.Body `hcl:",remain"`
		} `hcl:"items,block"`
	}
	if r.diags(gohcl.DecodeBody(file.Body, nil, &form)) {
		return spec, r.err()
	}
	spec = varFile{Namespace: form.Namespace, Path: form.Path, Items: map[string]string{}}
	attrs, diags := form.Items.Rest.JustAttributes()
	r.diags(diags)
	for key, a := range attrs {
		value := ""
		r.diags(gohcl.DecodeExpression(a.Expr, nil, &value))
		spec.Items[key] = value
	}
	return spec, r.err()
}
