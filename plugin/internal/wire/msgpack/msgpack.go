// Package msgpack reads the configuration a Nomad client encoded. Numbers arrive in four
// shapes (signed, unsigned, float and, where none of these is exact, as decimal text), so
// every number field takes all of them, as long as the value fits exactly. Null resets a
// field to its zero value; a pointer tells null from zero.
package msgpack

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Misfit is a value that its field cannot hold.
type Misfit struct {
	Field string // as "a.b.0"
	Value string
	Kind  reflect.Kind // of the field
}

// Misfits is the error of a configuration that has some. Every other field is filled.
type Misfits []Misfit

func (m Misfits) Error() string {
	lines := make([]string, len(m))
	for i, one := range m {
		lines[i] = fmt.Sprintf("%s: %q is no %s", one.Field, one.Value, one.Kind)
	}
	return "decode configuration: " + strings.Join(lines, "; ")
}

// Decode fills the struct out points to. Fields are named by their codec tag or else by their
// Go name, letter for letter; keys without a field are skipped. No data leaves out as it is.
// Numbers that do not fit are [Misfits].
func Decode(data []byte, out any) error {
	if len(data) == 0 {
		return nil
	}
	generic, err := Value(data)
	if err != nil {
		return err
	}
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result:     out,
		TagName:    "codec",
		ZeroFields: true,
		MatchName:  func(key, field string) bool { return key == field },
		DecodeHook: mapstructure.DecodeHookFuncValue(exactNumber),
	})
	if err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	if err := dec.Decode(generic); err != nil {
		if found, all := misfits(err); all {
			return found
		}
		return fmt.Errorf("decode configuration: %w", err)
	}
	return nil
}

// misfits takes apart what a decoder says; all reports whether there was nothing else in it.
func misfits(err error) (found Misfits, all bool) {
	switch e := err.(type) {
	case *mapstructure.DecodeError:
		if number, ok := e.Unwrap().(*misfitError); ok {
			field := strings.NewReplacer("[", ".", "]", "").Replace(e.Name())
			return Misfits{{Field: field, Value: number.text, Kind: number.kind}}, true
		}
		return misfits(e.Unwrap())
	case interface{ Unwrap() []error }:
		all = true
		for _, one := range e.Unwrap() {
			some, only := misfits(one)
			found, all = append(found, some...), all && only
		}
		return found, all
	case interface{ Unwrap() error }:
		return misfits(e.Unwrap())
	}
	return nil, false
}

// Value is the data as maps with string keys, slices, strings, numbers, booleans and nil.
func Value(data []byte) (any, error) {
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	handle.MapType = reflect.TypeFor[map[string]any]()
	handle.TimeNotBuiltin = true
	var v any
	if err := codec.NewDecoderBytes(data, handle).Decode(&v); err != nil {
		return nil, fmt.Errorf("read msgpack: %w", err)
	}
	return v, nil
}

// exactNumber turns any spelling of a number into the kind of the field it is for, and refuses
// one that would change its value there.
func exactNumber(from, to reflect.Value) (any, error) {
	text, isNumber := numberText(from)
	if !isNumber {
		return from.Interface(), nil
	}
	bits := 64
	switch to.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, to.Type().Bits())
		return n, misfit(text, to, err)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, to.Type().Bits())
		return n, misfit(text, to, err)
	case reflect.Float32:
		bits = 32
		fallthrough
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, bits)
		return f, misfit(text, to, err)
	default:
		return from.Interface(), nil
	}
}

// numberText is the decimal spelling of a value that is, or may be, a number.
func numberText(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), true
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if f == math.Trunc(f) {
			return strconv.FormatFloat(f, 'f', -1, 64), true
		}
		return strconv.FormatFloat(f, 'g', -1, 64), true
	case reflect.String:
		return v.String(), true
	default:
		return "", false
	}
}

// misfitError is a number that a kind of field cannot hold.
type misfitError struct {
	text string
	kind reflect.Kind
}

func (e *misfitError) Error() string { return fmt.Sprintf("%q is no %s", e.text, e.kind) }

func misfit(text string, to reflect.Value, err error) error {
	if err != nil {
		return &misfitError{text, to.Kind()}
	}
	return nil
}
