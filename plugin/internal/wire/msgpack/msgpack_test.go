package msgpack

import (
	"math"
	"math/big"
	"reflect"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

func number(t *testing.T, text string) cty.Value {
	t.Helper()
	f, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	return cty.NumberVal(f)
}

func encode(t *testing.T, v cty.Value) []byte {
	t.Helper()
	out, err := ctymsgpack.Marshal(v, v.Type())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTrap28Numbers: every shape in which a number may arrive fits every field that can hold
// its value exactly, and no other.
func TestTrap28Numbers(t *testing.T) {
	type row struct {
		in    string
		into  any // pointer to a struct with one field N
		want  any
		fails bool
	}
	type i struct{ N int }
	type i8 struct{ N int8 }
	type u16 struct{ N uint16 }
	type f struct{ N float64 }
	rows := []row{
		{in: "0", into: &i{}, want: i{0}},
		{in: "127", into: &i8{}, want: i8{127}},
		{in: "128", into: &i8{}, fails: true},
		{in: "-128", into: &i8{}, want: i8{-128}},
		{in: "-129", into: &i8{}, fails: true},
		{in: "65535", into: &u16{}, want: u16{65535}},
		{in: "65536", into: &u16{}, fails: true},
		{in: "-1", into: &u16{}, fails: true},
		{in: "9223372036854775807", into: &i{}, want: i{math.MaxInt64}},
		{in: "-9223372036854775808", into: &i{}, want: i{math.MinInt64}},
		{in: "9223372036854775808", into: &i{}, fails: true}, // arrives as text
		{in: "0.5", into: &i{}, fails: true},                 // arrives as float64
		{in: "0.1", into: &i{}, fails: true},                 // arrives as text
		{in: "0.5", into: &f{}, want: f{0.5}},
		{in: "0.1", into: &f{}, want: f{0.1}},
		{in: "3", into: &f{}, want: f{3}},
		{in: "-3", into: &f{}, want: f{-3}},
		{in: "1e20", into: &f{}, want: f{1e20}},
	}
	for _, r := range rows {
		t.Run(r.in+" into "+reflect.TypeOf(r.into).Elem().Name(), func(t *testing.T) {
			data := encode(t, cty.ObjectVal(map[string]cty.Value{"N": number(t, r.in)}))
			err := Decode(data, r.into)
			if r.fails != (err != nil) {
				t.Fatalf("error %v, want one: %v", err, r.fails)
			}
			if got := reflect.ValueOf(r.into).Elem().Interface(); !r.fails && got != r.want {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}

func TestNullResetsAndPointersTellNullFromZero(t *testing.T) {
	type config struct {
		Plain   int      `codec:"plain"`
		Pointer *int     `codec:"pointer"`
		Zero    *int     `codec:"zero"`
		Flag    *bool    `codec:"flag"`
		List    []string `codec:"list"`
	}
	seven := 7
	got := config{Plain: 7, Pointer: &seven, List: []string{"old"}}
	err := Decode(encode(t, cty.ObjectVal(map[string]cty.Value{
		"plain":   cty.NullVal(cty.Number),
		"pointer": cty.NullVal(cty.Number),
		"zero":    cty.NumberIntVal(0),
		"flag":    cty.False,
		"list":    cty.NullVal(cty.List(cty.String)),
	})), &got)
	if err != nil {
		t.Fatal(err)
	}
	if got.Plain != 0 || got.Pointer != nil || got.List != nil {
		t.Errorf("null left a value behind: %+v", got)
	}
	if got.Zero == nil || *got.Zero != 0 || got.Flag == nil || *got.Flag {
		t.Errorf("zero and false must be told from null: %+v", got)
	}
}

func TestNamesAreCodecTagsLetterForLetter(t *testing.T) {
	type nested struct {
		Allow []string `codec:"allow"`
	}
	type config struct {
		Image    string            `codec:"image" json:"picture"`
		Untagged string            // matches its Go name
		Egress   *nested           `codec:"egress"`
		Inject   map[string]nested `codec:"inject"`
		Any      any               `codec:"any"`
	}
	var got config
	err := Decode(encode(t, cty.ObjectVal(map[string]cty.Value{
		"image":    cty.StringVal("a"),
		"Image":    cty.StringVal("wrong case"),
		"picture":  cty.StringVal("wrong tag"),
		"Untagged": cty.StringVal("u"),
		"unknown":  cty.True,
		"egress":   cty.ObjectVal(map[string]cty.Value{"allow": cty.ListVal([]cty.Value{cty.StringVal("x")})}),
		"inject": cty.MapVal(map[string]cty.Value{
			"k": cty.ObjectVal(map[string]cty.Value{"allow": cty.ListValEmpty(cty.String)}),
		}),
		"any": cty.TupleVal([]cty.Value{cty.NumberIntVal(1), cty.StringVal("s"), cty.EmptyObjectVal}),
	})), &got)
	if err != nil {
		t.Fatal(err)
	}
	if got.Image != "a" || got.Untagged != "u" || got.Egress == nil || !reflect.DeepEqual(got.Egress.Allow, []string{"x"}) {
		t.Errorf("got %+v", got)
	}
	if _, ok := got.Inject["k"]; !ok {
		t.Errorf("map of blocks: %+v", got.Inject)
	}
	if l, ok := got.Any.([]any); !ok || len(l) != 3 {
		t.Errorf("any: %#v", got.Any)
	}
}

func TestBadData(t *testing.T) {
	var out struct{ A string }
	if err := Decode(nil, &out); err != nil {
		t.Errorf("no data: %v", err)
	}
	if err := Decode([]byte{0xc1}, &out); err == nil {
		t.Error("a byte that is no msgpack was accepted")
	}
	if err := Decode(encode(t, cty.ObjectVal(map[string]cty.Value{"A": cty.True})), &out); err == nil {
		t.Error("a boolean fitted a string")
	}
}

// FuzzDecode: whatever arrives, decoding ends with a value or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'N', 0x01})
	f.Add([]byte{0xc1})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		var out struct {
			N int
			L []string
			M map[string]*float64
			A any
		}
		_ = Decode(data, &out)
	})
}
