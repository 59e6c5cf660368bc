package hclconf

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
)

// Decoder turns a plugin's schema into an HCL decoder, with the name rules of a client: an
// object implies the key as the name of what it holds directly, nothing else implies a name.
func Decoder(spec *hclspecpb.Spec) (hcldec.Spec, error) {
	return translate(spec, "")
}

func translate(spec *hclspecpb.Spec, implied string) (hcldec.Spec, error) {
	switch b := spec.GetBlock().(type) {
	case *hclspecpb.Spec_Object:
		return object(b.Object)
	case *hclspecpb.Spec_Array:
		return tuple(b.Array)
	case *hclspecpb.Spec_Attr:
		return attribute(b.Attr, implied)
	case *hclspecpb.Spec_BlockAttrs:
		return blockAttributes(b.BlockAttrs, implied)
	case *hclspecpb.Spec_Default:
		return fallback(b.Default)
	case *hclspecpb.Spec_Literal:
		return literal(b.Literal)
	case *hclspecpb.Spec_BlockValue, *hclspecpb.Spec_BlockList, *hclspecpb.Spec_BlockSet, *hclspecpb.Spec_BlockMap:
		return block(spec, implied)
	default:
		return nil, errors.New("schema has an empty part")
	}
}

func object(o *hclspecpb.Object) (hcldec.Spec, error) {
	out := hcldec.ObjectSpec{}
	for key, part := range o.GetAttributes() {
		dec, err := translate(part, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[key] = dec
	}
	return out, nil
}

func tuple(a *hclspecpb.Array) (hcldec.Spec, error) {
	out := hcldec.TupleSpec{}
	for i, part := range a.GetValues() {
		dec, err := translate(part, "")
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out = append(out, dec)
	}
	return out, nil
}

func attribute(a *hclspecpb.Attr, implied string) (hcldec.Spec, error) {
	name := named(a.GetName(), implied)
	if name == "" {
		return nil, errors.New("schema has an attribute without a name")
	}
	typ, err := typeOf(a.GetType())
	if err != nil {
		return nil, err
	}
	return &hcldec.AttrSpec{Name: name, Type: typ, Required: a.GetRequired()}, nil
}

func blockAttributes(b *hclspecpb.BlockAttrs, implied string) (hcldec.Spec, error) {
	typ, err := typeOf(b.GetType())
	if err != nil {
		return nil, err
	}
	return &hcldec.BlockAttrsSpec{
		TypeName: named(b.GetName(), implied), ElementType: typ, Required: b.GetRequired(),
	}, nil
}

// block handles the four kinds that hold a nested schema.
func block(spec *hclspecpb.Spec, implied string) (hcldec.Spec, error) {
	part := nestedOf(spec)
	if part == nil {
		return nil, errors.New("schema has a block without content")
	}
	nested, err := translate(part, "")
	if err != nil {
		return nil, err
	}
	switch b := spec.GetBlock().(type) {
	case *hclspecpb.Spec_BlockValue:
		v := b.BlockValue
		return &hcldec.BlockSpec{TypeName: named(v.GetName(), implied), Required: v.GetRequired(), Nested: nested}, nil
	case *hclspecpb.Spec_BlockList:
		v := b.BlockList
		return &hcldec.BlockListSpec{
			TypeName: named(v.GetName(), implied), Nested: nested,
			MinItems: int(v.GetMinItems()), MaxItems: int(v.GetMaxItems()),
		}, nil
	case *hclspecpb.Spec_BlockSet:
		v := b.BlockSet
		return &hcldec.BlockSetSpec{
			TypeName: named(v.GetName(), implied), Nested: nested,
			MinItems: int(v.GetMinItems()), MaxItems: int(v.GetMaxItems()),
		}, nil
	default:
		v := spec.GetBlockMap()
		if len(v.GetLabels()) == 0 {
			return nil, errors.New("schema has a labelled block without labels")
		}
		return &hcldec.BlockMapSpec{TypeName: named(v.GetName(), implied), LabelNames: v.GetLabels(), Nested: nested}, nil
	}
}

func nestedOf(spec *hclspecpb.Spec) *hclspecpb.Spec {
	switch b := spec.GetBlock().(type) {
	case *hclspecpb.Spec_BlockValue:
		return b.BlockValue.GetNested()
	case *hclspecpb.Spec_BlockList:
		return b.BlockList.GetNested()
	case *hclspecpb.Spec_BlockSet:
		return b.BlockSet.GetNested()
	default:
		return spec.GetBlockMap().GetNested()
	}
}

func fallback(d *hclspecpb.Default) (hcldec.Spec, error) {
	primary, err := translate(d.GetPrimary(), "")
	if err != nil {
		return nil, err
	}
	def, err := translate(d.GetDefault(), "")
	if err != nil {
		return nil, err
	}
	return &hcldec.DefaultSpec{Primary: primary, Default: def}, nil
}

func literal(l *hclspecpb.Literal) (hcldec.Spec, error) {
	expr, diags := hclsyntax.ParseExpression([]byte(l.GetValue()), "literal", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("schema literal %s: %w", l.GetValue(), diags)
	}
	v, diags := expr.Value(&hcl.EvalContext{Functions: Functions()})
	if diags.HasErrors() {
		return nil, fmt.Errorf("schema literal %s: %w", l.GetValue(), diags)
	}
	return &hcldec.LiteralSpec{Value: v}, nil
}

func typeOf(source string) (cty.Type, error) {
	expr, diags := hclsyntax.ParseExpression([]byte(source), "type", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("schema type %q: %w", source, diags)
	}
	typ, diags := typeexpr.TypeConstraint(expr)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("schema type %q: %w", source, diags)
	}
	return typ, nil
}

func named(own, implied string) string {
	if own != "" {
		return own
	}
	return implied
}
