package jobfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wardyn/nomad-driver-wardyn/internal/nearest"
)

// section is one block of a job file, sorted by the verdicts of its table:
// what is left in attrs and blocks is to be read.
type section struct {
	p      *parser
	where  string // how messages call the block: task "web"
	attrs  map[string]*hclsyntax.Attribute
	blocks map[string][]*hclsyntax.Block
	// dynamic are the types of blocks that dynamic blocks make more of.
	dynamic map[string]bool
}

// open judges every name in a block by its table.
func (p *parser) open(where string, body *hclsyntax.Body, t table) section {
	s := section{p: p, where: where, attrs: map[string]*hclsyntax.Attribute{}, blocks: map[string][]*hclsyntax.Block{}, dynamic: map[string]bool{}}
	for _, a := range inOrder(body.Attributes) {
		r, known := t.attrs[a.Name]
		if _, isBlock := t.blocks[a.Name]; !known && isBlock {
			p.fault(a.NameRange, "%s: %s is a block: write %s { ... } without the equals sign", where, a.Name, a.Name)
			continue
		}
		if s.judge(a.Name, a.NameRange, r, known, t) {
			s.attrs[a.Name] = a
		}
	}
	for _, b := range body.Blocks {
		r, known := t.blocks[b.Type]
		if _, isAttr := t.attrs[b.Type]; !known && isAttr {
			p.fault(b.TypeRange, "%s: %s is a single value: write %s = ...", where, b.Type, b.Type)
			continue
		}
		if !known && b.Type == "dynamic" {
			r, known = rule{refused, "dynamic blocks are not expanded; write the blocks out"}, true
			s.leaveUnread(b)
		}
		if known && len(b.Labels) > 0 && plainBlocks[b.Type] {
			p.fault(b.LabelRanges[0], "%s: %s takes no label; drop %q", where, b.Type, b.Labels[0])
		}
		if s.judge(b.Type, b.TypeRange, r, known, t) {
			s.blocks[b.Type] = append(s.blocks[b.Type], b)
		}
	}
	return s
}

// leaveUnread notes that a dynamic block is not expanded.
func (s section) leaveUnread(b *hclsyntax.Block) {
	if len(b.Labels) == 1 {
		s.dynamic[b.Labels[0]] = true
		s.p.unread = append(s.p.unread, Note{posOf(b.DefRange()), fmt.Sprintf("%s: dynamic %q is not expanded, and what it makes was not checked", s.where, b.Labels[0])})
	}
}

// judge tells whether something is to be read and says what there is to say.
func (s section) judge(name string, at hcl.Range, r rule, known bool, t table) bool {
	switch {
	case !known:
		s.p.fault(at, "%s: there is no %q here%s", s.where, name, suggest(name, t.names()))
	case r.verdict == refused:
		s.p.refuse(at, "%s: %s is not supported by run: %s", s.where, name, r.why)
	case r.verdict == ignored:
		s.p.note(at, "%s: %s has no effect here: %s", s.where, name, r.why)
	}
	return known && (r.verdict == use || r.verdict == refused && s.p.cluster)
}

// read evaluates an attribute into a Go value. It tells whether there was one;
// absent, null and unknown values leave the target as it is.
func (s section) read(name string, into any) bool {
	a := s.attrs[name]
	if a == nil {
		return false
	}
	v, diags := a.Expr.Value(s.p.ctx)
	if s.p.diags(diags) || v.IsNull() || !v.IsWhollyKnown() {
		return false
	}
	diags = gohcl.DecodeExpression(hcl.StaticExpr(v, a.Expr.Range()), nil, into)
	for _, d := range diags {
		s.p.fault(a.Expr.Range(), "%s: %s: %s", s.where, name, strings.TrimPrefix(d.Detail, "Unsuitable value: "))
	}
	return !diags.HasErrors()
}

// known tells whether an attribute is absent, or its value could be worked out.
func (s section) known(name string) bool {
	a := s.attrs[name]
	if a == nil {
		return true
	}
	v, diags := a.Expr.Value(s.p.ctx)
	return !diags.HasErrors() && v.IsWhollyKnown()
}

// required complains when an attribute is missing.
func (s section) required(b *hclsyntax.Block, name string) bool {
	if s.attrs[name] == nil {
		s.p.fault(b.DefRange(), "%s: %s is missing", s.where, name)
		return false
	}
	return true
}

// whole reads a whole number within bounds.
func (s section) whole(name string, into *int, low int) {
	n := 0
	if !s.read(name, &n) {
		return
	}
	if n < low {
		s.p.fault(s.attrs[name].Range(), "%s: %s = %d is below %d", s.where, name, n, low)
		return
	}
	*into = n
}

// duration reads a text such as "90s"; it can't be negative.
func (s section) duration(name string, into *time.Duration) {
	text := ""
	if !s.read(name, &text) {
		return
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		s.p.fault(s.attrs[name].Range(), `%s: %s = %q is no duration: write a number and a unit, such as "30s" or "5m"`, s.where, name, text)
	case d < 0:
		s.p.fault(s.attrs[name].Range(), "%s: %s = %q is negative", s.where, name, text)
	default:
		*into = d
	}
}

// oneOf reads a text that must be one of a few; "" among them stands for none.
func (s section) oneOf(name string, into *string, choices ...string) {
	text := ""
	if !s.read(name, &text) {
		return
	}
	for _, c := range choices {
		if text == c {
			*into = text
			return
		}
	}
	s.p.fault(s.attrs[name].Range(), "%s: %s = %q is none of %s", s.where, name, text, strings.Join(slices.DeleteFunc(choices, func(c string) bool { return c == "" }), ", "))
}

// pairs reads env and meta, written as a block or as a map, on top of base.
func (s section) pairs(name string, base map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range base {
		out[k] = v
	}
	add := map[string]*string{}
	s.read(name, &add)
	for _, b := range s.blocks[name] {
		s.p.noBlocks(name, b)
		for _, a := range inOrder(b.Body.Attributes) {
			text := ""
			if (section{p: s.p, where: s.where + ": " + name, attrs: b.Body.Attributes}).read(a.Name, &text) {
				add[a.Name] = &text
			}
		}
	}
	for k, v := range add {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

// noBlocks complains about blocks where only attributes make sense.
func (p *parser) noBlocks(where string, b *hclsyntax.Block) {
	for _, inner := range b.Body.Blocks {
		p.fault(inner.TypeRange, "%s: only key = value lines belong here, not the block %q", where, inner.Type)
	}
}

// single gives the one block of a type, or nil, and complains about more.
func (s section) single(name string) *hclsyntax.Block {
	found := s.blocks[name]
	if len(found) == 0 {
		return nil
	}
	for _, extra := range found[1:] {
		s.p.fault(extra.DefRange(), "%s: a second %s block, the first is at %s", s.where, name, posOf(found[0].DefRange()))
	}
	return found[0]
}

// label gives a block's one label, which is the name of the thing.
func (p *parser) label(b *hclsyntax.Block) (string, bool) {
	if len(b.Labels) != 1 || b.Labels[0] == "" {
		p.fault(b.DefRange(), `a %s block has one label, its name: %s "example" { ... }`, b.Type, b.Type)
		return "", false
	}
	return b.Labels[0], true
}

// suggest names the known name that a mistyped one is near to.
func suggest(name string, known []string) string {
	if best, ok := nearest.Name(name, known); ok {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}
