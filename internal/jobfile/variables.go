package jobfile

import (
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is one declared variable. value is cty.NilVal until one is known.
type variable struct {
	typ    cty.Type
	value  cty.Value
	at     hcl.Range
	checks []*hclsyntax.Block // validation blocks
}

var variableRules = table{
	attrs:  map[string]rule{"type": {}, "default": {}, "description": {verdict: skip}, "sensitive": {verdict: skip}},
	blocks: map[string]rule{"validation": {}},
}

// declare reads one variable block.
func (p *parser) declare(b *hclsyntax.Block) {
	if len(b.Labels) != 1 {
		p.fault(b.DefRange(), `a variable block has one label, its name: variable "image" { ... }`)
		return
	}
	name := b.Labels[0]
	if old, twice := p.vars[name]; twice {
		p.fault(b.DefRange(), "variable %q is declared twice, first at %s", name, posOf(old.at))
		return
	}
	v := &variable{typ: cty.DynamicPseudoType, at: b.DefRange()}
	p.vars[name] = v
	s := p.open(`variable "`+name+`"`, b.Body, variableRules)
	v.checks = s.blocks["validation"]
	if a := s.attrs["type"]; a != nil {
		typ, diags := typeexpr.TypeConstraint(a.Expr)
		if p.diags(diags) {
			v.value = cty.DynamicVal
			return
		}
		v.typ = typ
	}
	if a := s.attrs["default"]; a != nil {
		value, diags := a.Expr.Value(nil)
		if p.diags(diags) {
			value = cty.DynamicVal
		}
		p.setVariable(v, value, func(err error) {
			p.fault(a.Expr.Range(), "variable %q: default: %v", name, err)
		})
	}
}

// declareShort reads the attributes of a variables block: name = default.
func (p *parser) declareShort(b *hclsyntax.Block) {
	for _, a := range inOrder(b.Body.Attributes) {
		if old, twice := p.vars[a.Name]; twice {
			p.fault(a.Range(), "variable %q is declared twice, first at %s", a.Name, posOf(old.at))
			continue
		}
		value, diags := a.Expr.Value(nil)
		if p.diags(diags) {
			value = cty.DynamicVal
		}
		p.vars[a.Name] = &variable{typ: value.Type(), value: value, at: a.Range()}
	}
}

// setVariable converts a value to the variable's type. A variable with a bad
// value becomes unknown, so that what uses it adds no further complaint.
func (p *parser) setVariable(v *variable, value cty.Value, complain func(error)) {
	converted, err := convert.Convert(value, v.typ)
	if err != nil {
		complain(err)
		converted = cty.DynamicVal
	}
	v.value = converted
}

// bindVariables puts the variables in reach of expressions, asks for those
// without a value, then runs their validations.
func (p *parser) bindVariables() {
	values := map[string]cty.Value{}
	for name, v := range p.vars {
		if v.value == cty.NilVal {
			p.fault(v.at, "variable %q has no value: pass -var %s=VALUE or give it a default", name, name)
			v.value = cty.DynamicVal
		}
		values[name] = v.value
	}
	p.ctx.Variables["var"] = cty.ObjectVal(values)
	for _, name := range sortedKeys(p.vars) {
		for _, b := range p.vars[name].checks {
			p.validate(name, b)
		}
	}
}

var validationRules = table{attrs: map[string]rule{"condition": {}, "error_message": {}}}

func (p *parser) validate(name string, b *hclsyntax.Block) {
	s := p.open(`validation of variable "`+name+`"`, b.Body, validationRules)
	ok, message := true, ""
	if !s.required(b, "condition") || !s.required(b, "error_message") {
		return
	}
	s.read("error_message", &message)
	if s.read("condition", &ok) && !ok {
		p.fault(p.vars[name].at, "variable %q: %s", name, message)
	}
}

// bindLocals evaluates the locals, each after those it mentions.
func (p *parser) bindLocals(blocks []*hclsyntax.Block) {
	pending := map[string]*hclsyntax.Attribute{}
	for _, b := range blocks {
		for _, a := range inOrder(b.Body.Attributes) {
			if old, twice := pending[a.Name]; twice {
				p.fault(a.Range(), "local %q is set twice, first at %s", a.Name, posOf(old.Range()))
				continue
			}
			pending[a.Name] = a
		}
	}
	values := map[string]cty.Value{}
	for len(pending) > 0 {
		progress := false
		for _, name := range sortedKeys(pending) {
			if waits(pending[name].Expr, pending) {
				continue
			}
			p.ctx.Variables["local"] = cty.ObjectVal(values)
			value, diags := pending[name].Expr.Value(p.ctx)
			if p.diags(diags) {
				value = cty.DynamicVal
			}
			values[name] = value
			delete(pending, name)
			progress = true
		}
		if !progress {
			for name, a := range pending {
				p.fault(a.Range(), "local %q depends on itself", name)
				values[name] = cty.DynamicVal
			}
			break
		}
	}
	p.ctx.Variables["local"] = cty.ObjectVal(values)
}

// waits tells whether an expression mentions a local that has no value yet.
func waits(e hclsyntax.Expression, pending map[string]*hclsyntax.Attribute) bool {
	for _, t := range e.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		name := ""
		switch step := t[1].(type) {
		case hcl.TraverseAttr:
			name = step.Name
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				name = step.Key.AsString()
			}
		}
		if _, waiting := pending[name]; waiting {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	list := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		list = append(list, a)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].NameRange.Start.Byte < list[j].NameRange.Start.Byte })
	return list
}
