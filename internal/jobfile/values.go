package jobfile

import (
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// envPrefix begins the names of environment variables that set a variable.
const envPrefix = "NOMAD_VAR_"

// Values are what a job file's variables are set to, as Nomad's command line
// has them. Of several values for one variable the last in this order holds:
// environment, files in their order, Given.
type Values struct {
	// Given are those of the command line, as text.
	Given map[string]string
	// Files are paths of files with NAME = VALUE in them, in HCL, or in JSON
	// when the name ends so.
	Files []string
	// LookupEnv reads the environment, where NOMAD_VAR_name sets a variable;
	// nil is none.
	LookupEnv func(key string) (string, bool)
	// Lenient passes over values for variables that the job file does not
	// declare; the environment's are always passed over.
	Lenient bool
}

// valueFile is the text of one file of values.
type valueFile struct {
	path string
	src  []byte
}

// readFiles reads the files of values.
func (v Values) readFiles() ([]valueFile, error) {
	var out []valueFile
	for _, path := range v.Files {
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("variables: %w", err)
		}
		out = append(out, valueFile{path, src})
	}
	return out, nil
}

// assign sets the declared variables.
func (p *parser) assign(v Values, files []valueFile) {
	if v.LookupEnv != nil {
		for _, name := range sortedKeys(p.vars) {
			if text, ok := v.LookupEnv(envPrefix + name); ok {
				p.assignText(name, text, hcl.Range{Filename: envPrefix + name})
			}
		}
	}
	for _, f := range files {
		p.assignFile(f, v.Lenient)
	}
	for _, name := range sortedKeys(v.Given) {
		from := hcl.Range{Filename: "-var " + name}
		if p.declared(name, from, v.Lenient) {
			p.assignText(name, v.Given[name], from)
		}
	}
}

// declared tells whether there is such a variable, and complains if not.
func (p *parser) declared(name string, from hcl.Range, lenient bool) bool {
	_, ok := p.vars[name]
	if !ok && !lenient {
		p.fault(from, "the job file declares no variable %q%s", name, suggest(name, sortedKeys(p.vars)))
	}
	return ok
}

// assignText sets a variable from text: for a string, a number or an untyped
// variable it is taken literally, for any other type as an expression.
func (p *parser) assignText(name, text string, from hcl.Range) {
	v := p.vars[name]
	value := cty.StringVal(text)
	if v.typ != cty.String && v.typ != cty.Number && v.typ != cty.DynamicPseudoType {
		expr, diags := hclsyntax.ParseExpression([]byte(text), from.Filename, hcl.InitialPos)
		if !diags.HasErrors() {
			value, diags = expr.Value(nil)
		}
		if diags.HasErrors() {
			p.fault(from, "%q is no value of type %s", text, typeexpr.TypeString(v.typ))
			v.value = cty.DynamicVal
			return
		}
	}
	p.setVariable(v, value, func(err error) { p.fault(from, "%v", err) })
}

// assignFile sets variables from a file of values.
func (p *parser) assignFile(f valueFile, lenient bool) {
	r := report{src: f.src} // its problems are about lines of that file
	for name, a := range r.valuesIn(f) {
		if !p.declared(name, a.NameRange, lenient) {
			continue
		}
		v := p.vars[name]
		value, diags := a.Expr.Value(nil)
		if r.diags(diags) {
			v.value = cty.DynamicVal
			continue
		}
		p.setVariable(v, value, func(err error) { r.fault(a.Expr.Range(), "variable %q: %v", name, err) })
	}
	p.problems = append(p.problems, r.problems...)
}

// valuesIn are the attributes of a file of values. Who declares a variable in
// it is told where that belongs.
func (r *report) valuesIn(f valueFile) hcl.Attributes {
	parse := func() (*hcl.File, hcl.Diagnostics) { return hclsyntax.ParseConfig(f.src, f.path, hcl.InitialPos) }
	if strings.HasSuffix(f.path, ".json") {
		parse = func() (*hcl.File, hcl.Diagnostics) { return json.Parse(f.src, f.path) }
	}
	file, diags := parse()
	if r.diags(diags) {
		return nil
	}
	declarations, rest, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}}})
	for _, b := range declarations.Blocks {
		r.fault(b.DefRange, "a file of values sets variables; declare %[1]q in the job file, and write here: %[1]s = VALUE", b.Labels[0])
	}
	attrs, diags := rest.JustAttributes()
	r.diags(diags)
	return attrs
}
