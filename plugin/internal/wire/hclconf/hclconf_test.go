package hclconf

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
)

// config reads a configuration as a client holds it: a generic map.
func config(t *testing.T, source string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(source))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return m
}

// TestBytesOfValues is the encoding table: what each value looks like on the wire.
func TestBytesOfValues(t *testing.T) {
	rows := []struct{ typ, in, hex string }{
		{"string", `"ab"`, "a26162"},
		{"string", `null`, "c0"},
		{"string", `5`, "a135"},
		{"string", `true`, "a474727565"},
		{"bool", `true`, "c3"},
		{"bool", `"false"`, "c2"},
		{"bool", `"1"`, "c3"},
		{"number", `0`, "00"},
		{"number", `127`, "7f"},
		{"number", `128`, "cc80"},
		{"number", `256`, "cd0100"},
		{"number", `65536`, "ce00010000"},
		{"number", `4294967296`, "cf0000000100000000"},
		{"number", `-1`, "ff"},
		{"number", `-33`, "d0df"},
		{"number", `-129`, "d1ff7f"},
		{"number", `"2"`, "02"},
		{"number", `0.5`, "cb3fe0000000000000"},
		{"number", `0.1`, "a3302e31"},
		{"number", `1e20`, "b5" + hex.EncodeToString([]byte("100000000000000000000"))},
		{"list(string)", `["a", "b"]`, "92a161a162"},
		{"map(string)", `{"b": "2", "a": "1"}`, "82a161a131a162a132"},
		{"any", `null`, "c0"},
		{"any", `{"k": [1, "x"]}`, "81a16b9201a178"},
		{"list(any)", `[1, "x"]`, "92a131a178"},
	}
	for _, r := range rows {
		t.Run(r.typ+" "+r.in, func(t *testing.T) {
			spec := hclspec.Object(map[string]*hclspec.Spec{"v": hclspec.Attr("v", r.typ)})
			got, err := Msgpack(spec, config(t, `{"v": `+r.in+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := hex.DecodeString("81a176" + r.hex)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
}

// TestSpellings is the table of which schema accepts which way of writing the same setting.
func TestSpellings(t *testing.T) {
	kv := hclspec.Object(map[string]*hclspec.Spec{"k": hclspec.Attr("k", hclspec.String)})
	const (
		block  = `{"x": [{"k": "v"}]}` // x { k = "v" } and x = { k = "v" } in a job file
		object = `{"x": {"k": "v"}}`   // API JSON, merge()
		twice  = `{"x": [{"k": "v"}, {"k": "w"}]}`
		absent = `{}`
		fails  = "error"
	)
	rows := []struct {
		name                         string
		spec                         *hclspec.Spec
		block, object, twice, absent string // decoded, as JSON
	}{
		{"map(string)", hclspec.Attr("x", "map(string)"), fails, `{"k":"v"}`, fails, `null`},
		{"list(map(string))", hclspec.Attr("x", hclspec.StringPairs), `[{"k":"v"}]`, fails, `[{"k":"v"},{"k":"w"}]`, `null`},
		{"block_attrs", hclspec.BlockAttrs("x", hclspec.String), `{"k":"v"}`, `{"k":"v"}`, fails, `null`},
		{"block_value", hclspec.Block("x", kv), `{"k":"v"}`, `{"k":"v"}`, fails, `null`},
		{"block_list", hclspec.BlockList("x", kv), `[{"k":"v"}]`, `[{"k":"v"}]`, `[{"k":"v"},{"k":"w"}]`, `[]`},
		{"block_set", hclspec.BlockSet("x", kv), `[{"k":"v"}]`, `[{"k":"v"}]`, `[{"k":"v"},{"k":"w"}]`, `[]`},
	}
	for _, r := range rows {
		for source, want := range map[string]string{block: r.block, object: r.object, twice: r.twice, absent: r.absent} {
			t.Run(r.name+" "+source, func(t *testing.T) {
				got, err := decoded(hclspec.Object(map[string]*hclspec.Spec{"x": r.spec}), config(t, source))
				if want == fails {
					if err == nil {
						t.Errorf("decoded to %s, want an error", got)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if want = `{"x":` + want + `}`; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

func decoded(spec *hclspec.Spec, config map[string]any) (string, error) {
	data, err := Msgpack(spec, config, nil)
	if err != nil {
		return "", err
	}
	v, err := msgpack.Value(data)
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}

func TestLabelledBlocks(t *testing.T) {
	spec := hclspec.Object(map[string]*hclspec.Spec{
		"inject": hclspec.BlockMap("inject", []string{"name"},
			hclspec.Object(map[string]*hclspec.Spec{"host": hclspec.Attr("host", hclspec.String)})),
	})
	for source, want := range map[string]string{
		`{"inject": [{"a": [{"host": "x"}]}, {"b": [{"host": "y"}]}]}`: `{"inject":{"a":{"host":"x"},"b":{"host":"y"}}}`,
		`{}`: `{"inject":{}}`,
	} {
		got, err := decoded(spec, config(t, source))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
}

func TestScopeInTemplates(t *testing.T) {
	vars := Scope{
		Env:  map[string]string{"NOMAD_ALLOC_ID": "a1", "COUNT": "3", "my.dotted": "d"},
		Node: map[string]string{"datacenter": "dc1", "unique.name": "n1"},
		Attr: map[string]string{"driver.wardyn": "1", "driver.wardyn.version": "0.1"},
		Meta: map[string]string{"rack": "r1"},
	}.Variables()
	spec := hclspec.Object(map[string]*hclspec.Spec{
		"s": hclspec.Attr("s", hclspec.String), "n": hclspec.Attr("n", hclspec.Number),
		"l": hclspec.Attr("l", hclspec.StringList),
	})
	data, err := Msgpack(spec, config(t, `{
		"s": "${NOMAD_ALLOC_ID} ${env[\"my.dotted\"]} ${node.unique.name} ${attr.driver.wardyn.version} ${meta.rack} $${kept} ${upper(\"u\")}",
		"n": "${COUNT}",
		"l": ["${node.datacenter}", "%{ if COUNT == \"3\" }three%{ endif }"]
	}`), vars)
	if err != nil {
		t.Fatal(err)
	}
	got, err := msgpack.Value(data)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"s": "a1 d n1 0.1 r1 ${kept} U", "l": []any{"dc1", "three"}}
	m := got.(map[string]any)
	if n := m["n"]; n != int64(3) {
		t.Errorf("n is %T %v, want a number", n, n)
	}
	delete(m, "n")
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %v, want %v", m, want)
	}
}

func TestRefusals(t *testing.T) {
	spec := hclspec.Object(map[string]*hclspec.Spec{
		"image": hclspec.Required("image", hclspec.String), "n": hclspec.Attr("n", hclspec.Number),
	})
	rows := []struct {
		name   string
		config map[string]any
		vars   map[string]cty.Value
		says   []string
	}{
		{"trap 33: no config", nil, nil, []string{"Root value must be object"}},
		{"unknown keys, all of them", config(t, `{"image": "a", "foo": 1, "bar": 2}`), nil, []string{`"foo"`, `"bar"`}},
		{"missing", config(t, `{}`), nil, []string{`"image"`}},
		{"type", config(t, `{"image": "a", "n": "x"}`), nil, []string{"number"}},
		{"unknown variable", config(t, `{"image": "${NOPE}"}`), Scope{}.Variables(), []string{"NOPE"}},
		{"no variables in plugin config", config(t, `{"image": "${NOMAD_ALLOC_ID}"}`), nil, []string{"ariables"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := Msgpack(spec, r.config, r.vars)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, text := range r.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %s", err, text)
				}
			}
		})
	}
	if _, err := Msgpack(spec, config(t, `{"image": null}`), nil); err != nil {
		t.Errorf("trap 32: a required attribute takes null, got %v", err)
	}
}

func TestSchemaFaults(t *testing.T) {
	rows := map[string]*hclspec.Spec{
		"nil":                     nil,
		"empty":                   {},
		"attribute without type":  hclspec.Object(map[string]*hclspec.Spec{"a": hclspec.Attr("a", "")}),
		"bad type":                hclspec.Object(map[string]*hclspec.Spec{"a": hclspec.Attr("a", "strin")}),
		"block without content":   hclspec.Object(map[string]*hclspec.Spec{"a": hclspec.Block("a", nil)}),
		"unnamed inside default":  hclspec.Default(hclspec.Attr("", hclspec.String), hclspec.Literal(`""`)),
		"unnamed inside an array": hclspec.Array(hclspec.Attr("", hclspec.String)),
		"bad literal":             hclspec.Literal(`3m`),
		"labels missing":          hclspec.BlockMap("a", nil, hclspec.Object(nil)),
	}
	for name, spec := range rows {
		if _, err := Decoder(spec); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTrap31DefaultsOfAnAbsentBlock(t *testing.T) {
	members := map[string]*hclspec.Spec{
		"size": hclspec.DefaultNumber("size", 3), "name": hclspec.Attr("name", hclspec.String),
		"list": hclspec.BlockList("list", hclspec.Object(nil)),
	}
	plain := hclspec.Object(map[string]*hclspec.Spec{"b": hclspec.Block("b", hclspec.Object(members))})
	withDefault := hclspec.Object(map[string]*hclspec.Spec{"b": hclspec.DefaultBlock("b", members)})
	full := `{"b":{"list":[],"name":null,"size":3}}`
	for _, r := range []struct {
		spec         *hclspec.Spec
		source, want string
	}{
		{plain, `{}`, `{"b":null}`},
		{plain, `{"b": [{}]}`, full},
		{withDefault, `{}`, full},
		{withDefault, `{"b": [{}]}`, full},
		{withDefault, `{"b": [{"size": 4}]}`, `{"b":{"list":[],"name":null,"size":4}}`},
	} {
		got, err := decoded(r.spec, config(t, r.source))
		if err != nil {
			t.Fatal(err)
		}
		if got != r.want {
			t.Errorf("%s: got %s, want %s", r.source, got, r.want)
		}
	}
}
