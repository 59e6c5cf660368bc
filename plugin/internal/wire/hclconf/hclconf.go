// Package hclconf decodes configuration as a Nomad client does before a plugin sees it: a
// generic map becomes HCL in JSON, a schema turns that into typed values, and these travel as
// msgpack. The client half uses it for real configurations, tests for golden ones.
package hclconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
)

// Error lists everything wrong with one configuration.
type Error struct{ Diagnostics hcl.Diagnostics }

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Diagnostics))
	for _, d := range e.Diagnostics {
		lines = append(lines, Text(d))
	}
	return strings.Join(lines, "\n")
}

// Text is a diagnostic without its position: positions are those of generated JSON and mean
// nothing to the author.
func Text(d *hcl.Diagnostic) string {
	if d.Detail == "" {
		return d.Summary
	}
	return d.Summary + ": " + d.Detail
}

// Decode evaluates a configuration against a schema. Every string is an HCL template; with
// vars nil it may use functions only. The error is an [Error] where the configuration is at
// fault.
func Decode(spec *hclspecpb.Spec, config map[string]any, vars map[string]cty.Value) (cty.Value, error) {
	dec, err := Decoder(spec)
	if err != nil {
		return cty.NilVal, err
	}
	source, err := toJSON(config)
	if err != nil {
		return cty.NilVal, err
	}
	file, diags := hcljson.Parse(source, "config")
	if diags.HasErrors() {
		return cty.NilVal, &Error{diags}
	}
	value, diags := hcldec.Decode(file.Body, dec, &hcl.EvalContext{Variables: vars, Functions: Functions()})
	if diags.HasErrors() {
		return cty.NilVal, &Error{diags}
	}
	return value, nil
}

// toJSON keeps a nil map as null, which the decoder refuses: that is what happens to a task
// without any configuration.
func toJSON(config map[string]any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(config); err != nil {
		return nil, fmt.Errorf("configuration is no JSON value: %w", err)
	}
	return buf.Bytes(), nil
}

// Encode returns a value as it travels in msgpack_driver_config and msgpack_config: by the
// value's own type, so no type information is added.
func Encode(v cty.Value) ([]byte, error) {
	if !v.IsWhollyKnown() {
		return nil, errors.New("configuration has values that are not known")
	}
	out, err := ctymsgpack.Marshal(v, v.Type())
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return out, nil
}

// Msgpack is [Decode] and [Encode] in one.
func Msgpack(spec *hclspecpb.Spec, config map[string]any, vars map[string]cty.Value) ([]byte, error) {
	v, err := Decode(spec, config, vars)
	if err != nil {
		return nil, err
	}
	return Encode(v)
}
