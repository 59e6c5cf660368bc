package plugin

import (
	"fmt"
	"strconv"
	"strings"
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
