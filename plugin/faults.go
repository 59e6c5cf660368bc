package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
)

// Fault is one thing wrong with a configuration: the option as its author
// wrote it, its value where that is short and plain, why it is refused and what
// would be accepted.
type Fault struct {
	Field  string `json:"field"`
	Value  string `json:"value,omitempty"`
	Reason string `json:"reason"`
	Fix    string `json:"fix,omitempty"`
}

func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Field)
	if f.Value != "" {
		b.WriteString(" = " + f.Value)
	}
	b.WriteString(": " + f.Reason)
	if f.Fix != "" {
		b.WriteString("; " + f.Fix)
	}
	return b.String()
}

// faults collects everything wrong with one configuration, in the order found.
// It is an error that names them all, on one line: clients show it in a table.
type faults struct {
	what string // what was examined
	list []Fault
}

// add records a fault. Of value only what is short and plain is shown: an
// option may hold a secret somewhere inside.
func (f *faults) add(field string, value any, reason, fix string) {
	f.list = append(f.list, Fault{field, shown(value), reason, fix})
}

// addEach records a fault of one option for each error that was joined into err.
func (f *faults) addEach(field string, value any, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			f.addEach(field, value, one)
		}
	} else if err != nil {
		f.add(field, value, err.Error(), "")
	}
}

// read decodes a config. Numbers that their options cannot hold go to f, each by
// its name, and everything else is read; an error is a config of no kind at all.
func (f *faults) read(data []byte, config any) error {
	err := msgpack.Decode(data, config)
	var found msgpack.Misfits
	if !errors.As(err, &found) {
		return err
	}
	for _, m := range found {
		fix := "write a number without a fraction"
		if !strings.ContainsAny(m.Value, ".e") {
			fix = "write a smaller number"
		}
		f.list = append(f.list, Fault{Field: m.Field, Value: m.Value, Reason: "it is no whole number of a size that can be", Fix: fix})
	}
	return nil
}

// after puts before in front what was found in a config as it was decoded. Of the
// same options nothing more is said: they were left out.
func (f *faults) after(before []Fault) *faults {
	if len(before) == 0 {
		return f
	}
	unread := make([]string, len(before))
	for i, b := range before {
		unread[i] = root(b.Field)
	}
	f.list = append(slices.Clone(before), slices.DeleteFunc(f.list, func(one Fault) bool { return isAbout(one.Field, unread) })...)
	return f
}

// err is nil when nothing was found.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return f
}

func (f *faults) Error() string {
	var b strings.Builder
	switch n := len(f.list); n {
	case 1:
		fmt.Fprintf(&b, "%s is refused: %s", f.what, f.list[0])
	default:
		fmt.Fprintf(&b, "%s is refused for %d reasons: ", f.what, n)
		for i, one := range f.list {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "(%d) %s", i+1, one)
		}
	}
	return b.String()
}

// shown writes a value as HCL where it is short and plain, else nothing.
func shown(v any) string {
	const most = 80
	s := ""
	switch v := v.(type) {
	case string:
		s = strconv.Quote(v)
	case bool, int, int64, uint64, float64:
		s = fmt.Sprint(v)
	case []string:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = strconv.Quote(e)
		}
		s = "[" + strings.Join(parts, ", ") + "]"
	case []any:
		if list, ok := plainList(v); ok {
			return shown(list)
		}
	}
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func plainList(v []any) ([]string, bool) {
	out := make([]string, len(v))
	for i, e := range v {
		s, ok := e.(string)
		if !ok {
			return nil, false
		}
		out[i] = s
	}
	return out, true
}
