package jobfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Places say where a task's options are written: a config option by its name,
// with a dot into a block or a map (egress.allow, labels.team); the task's own
// as user, env.NAME, resources.memory, volume_mount.
type Places map[string]Place

// Place is where one option is written, and where the elements of a list or the
// blocks of one name are.
type Place struct {
	Pos      Pos
	elements map[string]Pos // by the element's text, or a text in it
	label    bool           // it is the label of a block
}

// Find is the line of an option, or of the element with that value in it. A
// name that is not in the file is looked for in what holds it; of several
// names, "command, args", the first one written counts.
func (pl Places) Find(field, value string) (Pos, bool) {
	for name := range strings.SplitSeq(field, ", ") {
		for ok := true; ok; name, ok = parent(name) {
			if p, written := pl[name]; written {
				if at, ok := p.elements[value]; ok {
					return at, true
				}
				return p.Pos, true
			}
		}
	}
	return Pos{}, false
}

// Add records where an element of an option is that is written elsewhere than
// in the task; the option itself is where the first of them is.
func (pl Places) Add(field, element string, at Pos) {
	p, ok := pl[field]
	if !ok {
		p = Place{Pos: at, elements: map[string]Pos{}}
		pl[field] = p
	}
	p.elements[element] = at
}

// Labels are those of the blocks of one name, in order.
func (pl Places) Labels(block string) []string {
	var out []string
	for name := range pl {
		label, ok := strings.CutPrefix(name, block+".")
		if ok && pl[name].label {
			out = append(out, label)
		}
	}
	slices.Sort(out)
	return out
}

func parent(name string) (string, bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", false
	}
	return name[:i], true
}

// places records where everything in a task's block is.
func (p *parser) places(task *hclsyntax.Block) Places {
	pl := Places{}
	for _, a := range task.Body.Attributes {
		p.place(pl, "", a)
	}
	for _, b := range task.Body.Blocks {
		pl.block(p, b.Type, b)
	}
	for _, b := range task.Body.Blocks {
		if b.Type == "config" { // last: its names are the plain ones
			pl.body(p, "", b.Body)
		}
	}
	return pl
}

func (pl Places) block(p *parser, name string, b *hclsyntax.Block) {
	if _, earlier := pl[name]; !earlier {
		pl[name] = Place{Pos: posOf(b.DefRange()), elements: map[string]Pos{}}
	}
	for _, a := range b.Body.Attributes {
		pl[name].holds(p, a.Expr, posOf(b.DefRange()))
	}
	for _, label := range b.Labels {
		name += "." + label
		pl[name] = Place{Pos: posOf(b.DefRange()), label: true}
	}
	pl.body(p, name+".", b.Body)
}

func (pl Places) body(p *parser, prefix string, body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		p.place(pl, prefix, a)
	}
	for _, b := range body.Blocks {
		pl.block(p, prefix+b.Type, b)
	}
}

// place records one attribute, the elements of a list and the keys of a map.
func (p *parser) place(pl Places, prefix string, a *hclsyntax.Attribute) {
	at := Place{Pos: posOf(a.NameRange), elements: map[string]Pos{}}
	switch e := a.Expr.(type) {
	case *hclsyntax.TupleConsExpr:
		for _, element := range e.Exprs {
			if text, ok := p.text(element); ok {
				at.elements[text] = posOf(element.Range())
			}
			if m, ok := element.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range m.Items {
					at.holds(p, item.ValueExpr, posOf(element.Range()))
				}
			}
		}
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			if key, ok := p.text(item.KeyExpr); ok {
				pl[prefix+a.Name+"."+key] = Place{Pos: posOf(item.KeyExpr.Range())}
			}
		}
	}
	pl[prefix+a.Name] = at
}

// holds records that an element, or one of several blocks, has a text in it. Of
// two that have the same, it is the first.
func (pl Place) holds(p *parser, value hclsyntax.Expression, at Pos) {
	text, ok := p.text(value)
	if _, earlier := pl.elements[text]; ok && !earlier {
		pl.elements[text] = at
	}
}

// text is the value of an expression that is a text.
func (p *parser) text(e hclsyntax.Expression) (string, bool) {
	v, diags := e.Value(p.ctx)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}
