package jobfile

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// keepReferences makes every reference that is neither a variable nor a local
// of the file, such as ${NOMAD_ALLOC_ID} or ${env["X"]}, evaluate to its own
// text. HCL has no hook for that, so the references are pointed at variables
// that hold the texts; the result is what the evaluation context must know.
func keepReferences(node hclsyntax.Node, src []byte, texts map[string]cty.Value) {
	k := &referenceKeeper{src: src, texts: texts, types: map[*hclsyntax.ScopeTraversalExpr]bool{}}
	hclsyntax.Walk(node, k) //nolint:errcheck // Enter and Exit report nothing
}

type referenceKeeper struct {
	src    []byte
	texts  map[string]cty.Value
	scopes []map[string]struct{} // names of the for expressions around
	types  map[*hclsyntax.ScopeTraversalExpr]bool
}

func (k *referenceKeeper) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case hclsyntax.ChildScope:
		k.scopes = append(k.scopes, n.LocalNames)
	case *hclsyntax.FunctionCallExpr:
		k.spareType(n)
	case *hclsyntax.ScopeTraversalExpr:
		if k.types[n] || k.resolvable(n.Traversal.RootName()) {
			return nil
		}
		at := n.Traversal.SourceRange()
		name := fmt.Sprintf("runtime reference %d", len(k.texts))
		k.texts[name] = cty.StringVal("${" + spaced(k.src, at.Start.Byte, at.End.Byte) + "}")
		n.Traversal = hcl.Traversal{hcl.TraverseRoot{Name: name, SrcRange: at}}
	}
	return nil
}

// spaced is a reference with the spaces that it has in its braces, as Nomad's
// parser leaves it: in env, meta and services a client takes none with spaces.
func spaced(src []byte, start, end int) string {
	from, to := start, end
	for from > 0 && src[from-1] == ' ' {
		from--
	}
	for to < len(src) && src[to] == ' ' {
		to++
	}
	if !bytes.HasSuffix(src[:from], []byte("${")) || to == len(src) || src[to] != '}' {
		from, to = start, end
	}
	return string(src[from:to])
}

func (k *referenceKeeper) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		k.scopes = k.scopes[:len(k.scopes)-1]
	}
	return nil
}

// spareType leaves the second argument of convert alone: it is a type, such as
// list(string), not a value.
func (k *referenceKeeper) spareType(call *hclsyntax.FunctionCallExpr) {
	if call.Name != "convert" || len(call.Args) != 2 {
		return
	}
	hclsyntax.VisitAll(call.Args[1], func(n hclsyntax.Node) hcl.Diagnostics { //nolint:errcheck // reports nothing
		if word, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			k.types[word] = true
		}
		return nil
	})
}

func (k *referenceKeeper) resolvable(root string) bool {
	if root == "var" || root == "local" {
		return true
	}
	for _, names := range k.scopes {
		if _, ok := names[root]; ok {
			return true
		}
	}
	return false
}
