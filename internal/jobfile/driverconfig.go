package jobfile

import (
	"math/big"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// driverConfig makes the map that Nomad's parser makes of a config block: no
// schema is known, so a block becomes a list of objects, one for each time it
// is written, a label one more level of that, and an attribute that is an
// object literal becomes a list of one object. Everything else stays as it is.
func (p *parser) driverConfig(s section, task *hclsyntax.Block) map[string]any {
	b := s.single("config")
	if b == nil {
		p.fault(task.DefRange(), "%s: there is no config block; Nomad refuses a task without", s.where)
		return nil
	}
	m := p.generic(s.where+": config", b.Body)
	if len(b.Body.Attributes)+len(b.Body.Blocks) == 0 {
		p.fault(b.DefRange(), "%s: config is empty; Nomad refuses a task without any option", s.where)
	}
	return m
}

func (p *parser) generic(where string, body *hclsyntax.Body) map[string]any {
	m := map[string]any{}
	for _, a := range inOrder(body.Attributes) {
		v, diags := a.Expr.Value(p.ctx)
		if p.diags(diags) || !v.IsWhollyKnown() {
			continue
		}
		m[a.Name] = plain(v)
		if _, literal := a.Expr.(*hclsyntax.ObjectConsExpr); literal {
			m[a.Name] = []any{m[a.Name]}
		}
	}
	for _, b := range body.Blocks {
		if b.Type == "dynamic" {
			p.fault(b.TypeRange, "%s: Nomad does not expand dynamic blocks in a driver's config; write the blocks out", where)
			continue
		}
		if a := body.Attributes[b.Type]; a != nil {
			p.fault(b.TypeRange, "%s: %s is written as a value at %s and as a block here; keep one form", where, b.Type, posOf(a.NameRange))
			continue
		}
		var value any = p.generic(where+": "+b.Type, b.Body)
		for i := len(b.Labels) - 1; i >= 0; i-- {
			value = map[string]any{b.Labels[i]: []any{value}}
		}
		earlier, _ := m[b.Type].([]any)
		m[b.Type] = append(earlier, value)
	}
	return m
}

// plain turns a known value into Go's JSON-like types: whole numbers that fit
// become int64, all other numbers float64.
func plain(v cty.Value) any {
	switch t := v.Type(); {
	case v.IsNull():
		return nil
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		f := v.AsBigFloat()
		if i, acc := f.Int64(); acc == big.Exact {
			return i
		}
		d, _ := f.Float64()
		return d
	case t.IsObjectType() || t.IsMapType():
		m := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			m[k.AsString()] = plain(e)
		}
		return m
	default: // list, set, tuple
		list := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			list = append(list, plain(e))
		}
		return list
	}
}
