package hclspec

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
)

func TestQuoteSurvivesHCL(t *testing.T) {
	for _, text := range []string{
		"", "plain", `say "hi"`, `back\slash`, "line\nbreak\ttab\r", "${not.a.variable}", "%{ if x }", "$${", "$", "100%", "zürich",
	} {
		expr, diags := hclsyntax.ParseExpression([]byte(Quote(text)), "", hcl.InitialPos)
		if diags.HasErrors() {
			t.Errorf("%q: %v", text, diags)
			continue
		}
		v, diags := expr.Value(nil)
		if diags.HasErrors() {
			t.Errorf("%q: %v", text, diags)
			continue
		}
		if got := v.AsString(); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	}
}

// TestTrap30Lint: each schema that a client takes silently and reads wrongly is named.
func TestTrap30Lint(t *testing.T) {
	object := func(s *Spec) *Spec { return Object(map[string]*Spec{"x": s}) }
	rows := []struct {
		name string
		spec *Spec
		says string // empty = fine
	}{
		{"good", object(Default(Block("x", Object(nil)), Literal("null"))), ""},
		{"implied by the object", object(Attr("", String)), ""},
		{"unnamed block in a default", object(Default(Block("", Object(nil)), Literal("null"))), ".x.primary"},
		{"unnamed attribute in a default", object(Default(Attr("", String), Literal("null"))), ".x.primary"},
		{"unnamed in an array", object(Array(Attr("", String))), ".x[0]"},
		{"block directly in a block", object(BlockList("x", BlockSet("", Object(nil)))), ".x"},
		{"empty part", object(&hclspecpb.Spec{}), ".x"},
		{"block without content", object(BlockMap("x", []string{"l"}, nil)), ".x"},
		{"trap 6: top level", Attr("x", String), "top level"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			err := Lint(r.spec)
			switch {
			case r.says == "" && err != nil:
				t.Errorf("unexpected: %v", err)
			case r.says != "" && (err == nil || !strings.Contains(err.Error(), r.says)):
				t.Errorf("got %v, want one about %s", err, r.says)
			}
		})
	}
}
