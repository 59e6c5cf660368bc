package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Job files and agent files spell a map as a block, as an attribute, as several
// blocks and as a list of maps, and a list of one as its only element. The
// options of type any take all of these; the functions here read them.

// stringMap reads a map of strings. Of a key given twice the later value holds.
func stringMap(v any) (map[string]string, error) {
	raw, err := anyMap(v)
	if err != nil || raw == nil {
		return nil, err
	}
	out := make(map[string]string, len(raw))
	for k, e := range raw {
		s, ok := scalar(e)
		if !ok {
			return nil, fmt.Errorf("the value of %q is no text", k)
		}
		out[k] = s
	}
	return out, nil
}

// anyMap reads a map, or a list of maps.
func anyMap(v any) (map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case []any:
		out := map[string]any{}
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				return nil, errors.New("want a block or a map")
			}
			maps.Copy(out, m)
		}
		return out, nil
	}
	return nil, errors.New("want a block or a map")
}

// stringList reads a list of strings, or one string for a list of one.
func stringList(v any) ([]string, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, len(list))
	for i, e := range list {
		s, ok := scalar(e)
		if !ok {
			return nil, errors.New("want a list of strings")
		}
		out[i] = s
	}
	return out, nil
}

// scalar is a plain value as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// mapList reads one map, several blocks or a list of maps, each on its own.
func mapList(v any) ([]map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return []map[string]any{v}, nil
	case []any:
		var out []map[string]any
		for _, e := range v {
			if e == nil {
				continue
			}
			m, ok := e.(map[string]any)
			if !ok {
				return nil, errors.New("want blocks or a list of maps")
			}
			out = append(out, m)
		}
		return out, nil
	}
	return nil, errors.New("want blocks or a list of maps")
}

// onlyKeys refuses what a block does not know, all of it.
func onlyKeys(m map[string]any, prefix string, known ...string) error {
	var unknown []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, k) && m[k] != nil {
			unknown = append(unknown, prefix+k)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("%s: no such option; there are %s", strings.Join(unknown, ", "), strings.Join(known, ", "))
}

// boolean reads a switch in any spelling.
func boolean(v any) (bool, error) {
	if v == nil {
		return false, nil
	}
	s, _ := scalar(v)
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("want true or false")
	}
	return b, nil
}
