package jobfile

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// serverFunctions are the template functions that ask a server or touch the
// host, with the reason why they are not to be had.
var serverFunctions = func() map[string]string {
	m := map[string]string{
		"file":        "it reads files of the host; read them into data with HCL's file()",
		"plugin":      "it runs programs on the host",
		"writeToFile": "it writes files of the host; use a template block for each file",
		"pkiCert":     noVault,
		"secret":      noVault,
		"secrets":     noVault,
	}
	for _, name := range []string{
		"caLeaf", "caRoots", "connect", "datacenters", "exportedServices", "key", "keyExists", "keyExistsGet",
		"keyOrDefault", "ls", "node", "nodes", "partitions", "peerings", "safeLs", "safeTree", "samenessGroup",
		"service", "services", "tree",
	} {
		m[name] = noConsul
	}
	for _, name := range []string{"nomadService", "nomadServices"} {
		m[name] = noServers
	}
	return m
}()

// goFunctions are those every Go template has.
var goFunctions = map[string]bool{
	"and": true, "break": true, "call": true, "continue": true, "eq": true, "ge": true, "gt": true, "html": true,
	"index": true, "js": true, "le": true, "len": true, "lt": true, "ne": true, "not": true, "or": true,
	"print": true, "printf": true, "println": true, "slice": true, "urlquery": true,
}

// callable tells whether Render knows a function.
func callable(name string) bool {
	_, local := localFunctions[name]
	_, env := envFunctions(nil)[name]
	_, variable := variableFunctions(Inputs{})[name]
	return local || env || variable || goFunctions[name]
}

// envFunctions read the task's environment.
func envFunctions(lookup func(string) (string, bool)) template.FuncMap {
	return template.FuncMap{
		"env": func(name string) string {
			v, _ := lookup(name)
			return v
		},
		"envOrDefault": func(name, otherwise string) string {
			if v, ok := lookup(name); ok && v != "" {
				return v
			}
			return otherwise
		},
		"mustEnv": func(name string) (string, error) {
			v, ok := lookup(name)
			if !ok {
				return "", fmt.Errorf("the environment variable %s is not set", name)
			}
			return v, nil
		},
	}
}

// localFunctions need nothing but their arguments. Where a value may be piped
// in, it is the last argument.
var localFunctions = template.FuncMap{
	"base64Encode": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64Decode": func(s string) (string, error) {
		b, err := base64.StdEncoding.DecodeString(s)
		return string(b), err
	},
	"base64URLEncode": func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64URLDecode": func(s string) (string, error) {
		b, err := base64.URLEncoding.DecodeString(s)
		return string(b), err
	},
	"contains":  func(value, list any) (bool, error) { return contains(value, list) },
	"indent":    indent,
	"join":      func(sep string, list []string) string { return strings.Join(list, sep) },
	"loop":      loop,
	"parseBool": func(s string) (bool, error) { return emptyOr(s, strconv.ParseBool) },
	"parseFloat": func(s string) (float64, error) {
		return emptyOr(s, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	},
	"parseInt": func(s string) (int64, error) {
		return emptyOr(s, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	},
	"parseJSON": func(s string) (any, error) {
		var v any
		if s == "" {
			return map[string]any{}, nil
		}
		err := json.Unmarshal([]byte(s), &v)
		return v, withoutText(err)
	},
	"regexMatch": func(expr, s string) (bool, error) {
		found, err := regexp.MatchString(expr, s)
		return found, withoutText(err)
	},
	"regexReplaceAll": func(expr, by, s string) (string, error) {
		re, err := regexp.Compile(expr)
		if err != nil {
			return "", withoutText(err)
		}
		return re.ReplaceAllString(s, by), nil
	},
	"replaceAll": func(old, by, s string) string { return strings.ReplaceAll(s, old, by) },
	"sha256Hex": func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	},
	"split": func(sep, s string) []string {
		if s = strings.TrimSpace(s); s == "" {
			return []string{}
		}
		return strings.Split(s, sep)
	},
	"timestamp": func(layout ...string) string {
		if len(layout) == 1 {
			return time.Now().UTC().Format(layout[0])
		}
		return time.Now().UTC().Format(time.RFC3339)
	},
	"toJSON": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"toJSONPretty": func(v any) (string, error) {
		b, err := json.MarshalIndent(v, "", "  ")
		return string(b), err
	},
	"toLower":    strings.ToLower,
	"toUpper":    strings.ToUpper,
	"trim":       func(cut, s string) string { return strings.Trim(s, cut) },
	"trimPrefix": func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
	"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
	"trimSpace":  strings.TrimSpace,
}

// emptyOr parses a text; the empty one gives the zero value.
func emptyOr[T any](s string, parse func(string) (T, error)) (T, error) {
	var zero T
	if s == "" {
		return zero, nil
	}
	v, err := parse(s)
	return v, withoutText(err)
}

// withoutText says what is wrong with a text and not what is in it: it may be a
// secret, of a Nomad variable or a token.
func withoutText(err error) error {
	var number *strconv.NumError
	var expr *syntax.Error
	var json *json.SyntaxError
	switch {
	case errors.As(err, &number):
		return number.Err
	case errors.As(err, &expr):
		return errors.New(expr.Code.String())
	case errors.As(err, &json):
		return fmt.Errorf("no JSON from byte %d on", json.Offset)
	}
	return err
}

func contains(value, list any) (bool, error) {
	switch l := list.(type) {
	case []string:
		for _, e := range l {
			if e == value {
				return true, nil
			}
		}
	case []any:
		for _, e := range l {
			if e == value {
				return true, nil
			}
		}
	default:
		return false, fmt.Errorf("contains: the second argument is a %T, not a list", list)
	}
	return false, nil
}

// indent puts spaces before every line that is not empty.
func indent(spaces int, s string) (string, error) {
	if spaces < 0 {
		return "", fmt.Errorf("indent: %d is negative", spaces)
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = strings.Repeat(" ", spaces) + l
		}
	}
	return strings.Join(lines, "\n"), nil
}

// loop counts: loop 3 gives 0 1 2, loop 5 8 gives 5 6 7.
func loop(bounds ...int64) ([]int64, error) {
	low, high := int64(0), int64(0)
	switch len(bounds) {
	case 1:
		high = bounds[0]
	case 2:
		low, high = bounds[0], bounds[1]
	default:
		return nil, fmt.Errorf("loop takes one or two numbers, not %d", len(bounds))
	}
	var list []int64
	for i := low; i < high; i++ {
		list = append(list, i)
	}
	return list, nil
}
