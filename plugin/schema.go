package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/wardyn/nomad-driver-wardyn/internal/nearest"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// readOptions decodes a config block by a schema, one option at a time, so that
// every fault is found and known by its option; a client stops at the first
// kind and names no place.
func readOptions(spec *hclspec.Spec, config map[string]any, vars map[string]cty.Value, f *faults) (out options, err error) {
	known := namesOnly(spec, config, "", f)
	right := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		v, err := hclconf.Decode(spec, map[string]any{name: known[name]}, vars)
		var bad *hclconf.Error
		switch {
		case errors.As(err, &bad):
			out.wrong = append(out.wrong, name)
			for _, d := range bad.Diagnostics {
				f.list = append(f.list, optionFault(name, spec.GetObject().GetAttributes()[name], d, vars))
			}
		case err != nil:
			out.wrong = append(out.wrong, name)
			f.add(name, nil, err.Error(), "")
		case !v.IsWhollyKnown():
			out.open = append(out.open, name)
		default:
			right[name] = known[name]
		}
	}
	out.data, err = hclconf.Msgpack(spec, right, vars)
	return out, err
}

// options is a config block, decoded as far as that goes.
type options struct {
	data  []byte   // the options that are right, as they travel
	open  []string // those whose value depends on what is not known here
	wrong []string
}

// namesOnly is a config block without the names that its schema does not have,
// which go to f with the nearest one that it has.
func namesOnly(spec *hclspec.Spec, config map[string]any, prefix string, f *faults) map[string]any {
	known := spec.GetObject().GetAttributes()
	out := make(map[string]any, len(config))
	for _, name := range slices.Sorted(maps.Keys(config)) {
		part, ok := known[name]
		if !ok {
			f.add(prefix+name, nil, noSuchOption, suggestion(name, slices.Sorted(maps.Keys(known))))
			continue
		}
		out[name] = blocksOnly(part, config[name], prefix+name+".", f)
	}
	return out
}

// blocksOnly does the same for what an option holds when it is a block.
func blocksOnly(part *hclspec.Spec, v any, prefix string, f *faults) any {
	nested, labels := blockOf(part)
	if nested.GetObject() == nil {
		return v
	}
	return each(v, func(m map[string]any) map[string]any { return inLabels(nested, m, labels, prefix, f) })
}

// inLabels goes down a labelled block's levels.
func inLabels(nested *hclspec.Spec, m map[string]any, levels int, prefix string, f *faults) map[string]any {
	if levels == 0 {
		return namesOnly(nested, m, prefix, f)
	}
	out := make(map[string]any, len(m))
	for label, v := range m {
		out[label] = each(v, func(m map[string]any) map[string]any {
			return inLabels(nested, m, levels-1, prefix+label+".", f)
		})
	}
	return out
}

// blockOf is the schema inside a block, and how many labels stand before it.
func blockOf(part *hclspec.Spec) (nested *hclspec.Spec, labels int) {
	switch {
	case part.GetBlockValue() != nil:
		return part.GetBlockValue().GetNested(), 0
	case part.GetBlockList() != nil:
		return part.GetBlockList().GetNested(), 0
	case part.GetBlockSet() != nil:
		return part.GetBlockSet().GetNested(), 0
	case part.GetBlockMap() != nil:
		return part.GetBlockMap().GetNested(), len(part.GetBlockMap().GetLabels())
	}
	return nil, 0
}

// each changes every map in a value that stands for one or several blocks.
func each(v any, change func(map[string]any) map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		return change(v)
	case []map[string]any:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = change(m)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			if m, ok := e.(map[string]any); ok {
				e = change(m)
			}
			out[i] = e
		}
		return out
	}
	return v
}

// noSuchOption is the complaint about a name that is in no schema.
const noSuchOption = "there is no option of this name"

// suggestion is the name that somebody probably meant, else where names are.
func suggestion(name string, known []string) string {
	if best, ok := nearest.Name(name, known); ok {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "the options are in docs/options.md"
}

// optionFault puts a decoder's complaint about one option, part of a schema, into
// our words.
func optionFault(name string, part *hclspec.Spec, d *hcl.Diagnostic, vars map[string]cty.Value) Fault {
	out := Fault{Field: name, Reason: strings.TrimSuffix(hclconf.Text(d), ".")}
	if _, rest, ok := strings.Cut(d.Detail, "Inappropriate value for attribute "); ok {
		inner, why, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `": `)
		if inner != name {
			out.Field += "." + inner
		}
		out.Reason = "it is of another type: " + strings.TrimSuffix(why, ".")
		switch {
		case strings.HasPrefix(why, "list of "):
			out.Fix = "write a list, with brackets around its elements"
		case strings.HasPrefix(why, "element "):
			out.Fix = "write a list of texts in quotes"
		case strings.Contains(out.Reason, "bool"):
			out.Fix = "write true or false"
		}
		return out
	}
	if reason, fix := blockFault(name, part, d); reason != "" {
		out.Reason, out.Fix = reason, fix
		return out
	}
	const twice = "strings in config are read twice as templates, by the job file and by the client"
	switch {
	case d.Summary == "Invalid template control keyword", strings.Contains(d.Summary, "emplate directive"):
		out.Reason, out.Fix = `it holds "%{" by the time the client reads it; `+twice, `write "%%%{", or give a longer text by a template block`
	case d.Summary == "Extra characters after interpolation expression", d.Summary == "Invalid expression":
		out.Reason, out.Fix = `it holds "${" before what is no reference by the time the client reads it; `+twice, `write "$$${", or give a longer text by a template block or as base64encode(file("..."))`
	case d.Summary == "Unknown variable":
		out.Fix = variableFix(unquoted(d.Detail), vars)
	}
	return out
}

// blockFault is what is wrong with how a block is written, and how to write it;
// "" where d is about something else. A decoder speaks of the JSON that a client
// makes of a job file.
func blockFault(name string, part *hclspec.Spec, d *hcl.Diagnostic) (reason, fix string) {
	head := name
	if _, labels := blockOf(part); labels > 0 {
		head += ` "NAME"`
	}
	switch {
	case d.Summary == "Incorrect JSON value type":
		return "it is a block", fmt.Sprintf("write %s { ... }", head)
	case d.Summary == "Missing block label":
		return "it has no name", fmt.Sprintf("write %s { ... }", head)
	case strings.HasPrefix(d.Detail, "Only one block of type"):
		return "the block is there more than once", "write one block with all of it"
	}
	return "", ""
}

// unquoted is what stands in quotes in a sentence.
func unquoted(s string) string {
	_, s, _ = strings.Cut(s, `"`)
	s, _, _ = strings.Cut(s, `"`)
	return s
}

// variableFix is what to write instead of a reference that leads nowhere.
func variableFix(name string, vars map[string]cty.Value) string {
	known := slices.Sorted(maps.Keys(vars))
	if clean := strings.NewReplacer("-", "_", ".", "_").Replace(name); clean != name && (slices.Contains(known, clean) || strings.HasPrefix(name, "NOMAD_")) {
		return fmt.Sprintf("in the names of variables a dash becomes an underscore: write ${%s}", clean)
	}
	if best, ok := nearest.Name(name, known); ok {
		return fmt.Sprintf("did you mean ${%s}?", best)
	}
	return fmt.Sprintf(`if it is meant for a shell in the sandbox, write "$$${%s}"`, name)
}
