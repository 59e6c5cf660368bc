// Package hclspec builds the schemas by which a plugin describes its configuration to the
// client. Every attribute and block takes its name as an argument: the protocol implies names
// in some places and not in others, and a block left without one there silently never
// matches.
package hclspec

import (
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
)

// Spec is a schema, or a part of one.
type Spec = hclspecpb.Spec

// Type expressions for attributes. Others are written out: "map(string)", "object({a=string})".
const (
	String      = "string"
	Number      = "number"
	Bool        = "bool"
	Any         = "any"
	StringList  = "list(string)"
	StringPairs = "list(map(string))" // what the spelling x = { k = "v" } arrives as
)

// Object is a value with one property for each key: the top level of every schema.
func Object(properties map[string]*Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_Object{Object: &hclspecpb.Object{Attributes: properties}}}
}

// Array is a tuple of the given values.
func Array(values ...*Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_Array{Array: &hclspecpb.Array{Values: values}}}
}

// Attr is an optional attribute of a type expression; null when absent.
func Attr(name, typ string) *Spec { return attr(name, typ, false) }

// Required is an attribute that must be present. An explicit null satisfies it.
func Required(name, typ string) *Spec { return attr(name, typ, true) }

func attr(name, typ string, required bool) *Spec {
	return &Spec{Block: &hclspecpb.Spec_Attr{Attr: &hclspecpb.Attr{Name: name, Type: typ, Required: required}}}
}

// Block is at most one nested block; null when absent, also where its members have defaults.
func Block(name string, nested *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockValue{BlockValue: &hclspecpb.Block{Name: name, Nested: nested}}}
}

// RequiredBlock is exactly one nested block.
func RequiredBlock(name string, nested *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockValue{
		BlockValue: &hclspecpb.Block{Name: name, Required: true, Nested: nested},
	}}
}

// BlockAttrs is a block of free keys, decoded as a map with values of one type.
func BlockAttrs(name, typ string) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockAttrs{BlockAttrs: &hclspecpb.BlockAttrs{Name: name, Type: typ}}}
}

// BlockList is any number of blocks in order; empty when absent.
func BlockList(name string, nested *Spec) *Spec { return BlockListLimited(name, 0, 0, nested) }

// BlockListLimited is a BlockList of at least lo and at most hi blocks; 0 is no limit.
func BlockListLimited(name string, lo, hi uint64, nested *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockList{
		BlockList: &hclspecpb.BlockList{Name: name, MinItems: lo, MaxItems: hi, Nested: nested},
	}}
}

// BlockSet is any number of blocks without duplicates; empty when absent.
func BlockSet(name string, nested *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockSet{BlockSet: &hclspecpb.BlockSet{Name: name, Nested: nested}}}
}

// BlockMap is blocks with labels, decoded as nested maps with a level for each label name;
// empty when absent.
func BlockMap(name string, labels []string, nested *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_BlockMap{
		BlockMap: &hclspecpb.BlockMap{Name: name, Labels: labels, Nested: nested},
	}}
}

// Default is the first of the two that is not null.
func Default(primary, fallback *Spec) *Spec {
	return &Spec{Block: &hclspecpb.Spec_Default{Default: &hclspecpb.Default{Primary: primary, Default: fallback}}}
}

// Literal is a constant, written as HCL source: strings need their quotes.
func Literal(source string) *Spec {
	return &Spec{Block: &hclspecpb.Spec_Literal{Literal: &hclspecpb.Literal{Value: source}}}
}

// DefaultString is an optional string attribute with a default. The text is taken as it is:
// quotes and template marks in it are escaped.
func DefaultString(name, text string) *Spec {
	return Default(Attr(name, String), Literal(Quote(text)))
}

// DefaultBool is an optional boolean attribute with a default.
func DefaultBool(name string, value bool) *Spec {
	return Default(Attr(name, Bool), Literal(strconv.FormatBool(value)))
}

// DefaultNumber is an optional number attribute with an integral default.
func DefaultNumber(name string, value int64) *Spec {
	return Default(Attr(name, Number), Literal(strconv.FormatInt(value, 10)))
}

// DefaultBlock is an optional block that is there with its members' own defaults when the
// configuration leaves it out: members maps property names, which are also the names inside
// the block.
func DefaultBlock(name string, members map[string]*Spec) *Spec {
	return Default(Block(name, Object(members)), Object(absentMembers(members)))
}

// absentMembers keeps of every member what it is without configuration.
func absentMembers(members map[string]*Spec) map[string]*Spec {
	out := make(map[string]*Spec, len(members))
	for key, m := range members {
		out[key] = absent(m)
	}
	return out
}

func absent(s *Spec) *Spec {
	switch b := s.GetBlock().(type) {
	case *hclspecpb.Spec_Default:
		return absent(b.Default.GetDefault())
	case *hclspecpb.Spec_Literal:
		return s
	case *hclspecpb.Spec_Object:
		return Object(absentMembers(b.Object.GetAttributes()))
	case *hclspecpb.Spec_BlockList, *hclspecpb.Spec_BlockSet:
		return Literal("[]")
	case *hclspecpb.Spec_BlockMap:
		return Literal("{}")
	default:
		return Literal("null")
	}
}

// Quote returns text as an HCL string literal.
func Quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case (r == '$' || r == '%') && strings.HasPrefix(text[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
