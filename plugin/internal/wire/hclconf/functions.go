package hclconf

import (
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Functions are the ones a client offers in configuration templates and schema literals.
func Functions() map[string]function.Function {
	return map[string]function.Function{
		"abs":        stdlib.AbsoluteFunc,
		"coalesce":   stdlib.CoalesceFunc,
		"concat":     stdlib.ConcatFunc,
		"hasindex":   stdlib.HasIndexFunc,
		"int":        stdlib.IntFunc,
		"jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"length":     stdlib.LengthFunc,
		"lower":      stdlib.LowerFunc,
		"max":        stdlib.MaxFunc,
		"min":        stdlib.MinFunc,
		"reverse":    stdlib.ReverseFunc,
		"strlen":     stdlib.StrlenFunc,
		"substr":     stdlib.SubstrFunc,
		"upper":      stdlib.UpperFunc,
	}
}

// Scope is what a task's templates may refer to: every environment variable by its bare name
// and as env["name"], and the node's facts under node, attr and meta.
type Scope struct {
	Env  map[string]string
	Node map[string]string // node.datacenter, node.unique.name, without the leading "node."
	Attr map[string]string
	Meta map[string]string
}

// Variables returns the scope for [Decode].
func (s Scope) Variables() map[string]cty.Value {
	root := newBranch()
	for name, value := range s.Env {
		root.add(name, value)
	}
	vars := root.values()
	vars["env"] = stringMap(s.Env)
	for name, facts := range map[string]map[string]string{"node": s.Node, "attr": s.Attr, "meta": s.Meta} {
		b := newBranch()
		for key, value := range facts {
			b.add(key, value)
		}
		vars[name] = cty.ObjectVal(b.values())
	}
	return vars
}

func stringMap(m map[string]string) cty.Value {
	if len(m) == 0 {
		return cty.MapValEmpty(cty.String)
	}
	out := make(map[string]cty.Value, len(m))
	for k, v := range m {
		out[k] = cty.StringVal(v)
	}
	return cty.MapVal(out)
}

// branch collects dotted keys as nested objects. Where a key is both a value and the start of
// others (driver.x and driver.x.version) the others win: a value cannot have members.
type branch struct {
	leaves   map[string]string
	branches map[string]*branch
}

func newBranch() *branch {
	return &branch{leaves: map[string]string{}, branches: map[string]*branch{}}
}

func (b *branch) add(key, value string) {
	head, rest, dotted := strings.Cut(key, ".")
	if !dotted {
		b.leaves[key] = value
		return
	}
	if b.branches[head] == nil {
		b.branches[head] = newBranch()
	}
	b.branches[head].add(rest, value)
}

func (b *branch) values() map[string]cty.Value {
	out := make(map[string]cty.Value, len(b.leaves)+len(b.branches))
	for k, v := range b.leaves {
		out[k] = cty.StringVal(v)
	}
	for k, sub := range b.branches {
		out[k] = cty.ObjectVal(sub.values())
	}
	return out
}
