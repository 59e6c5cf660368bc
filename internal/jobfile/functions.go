package jobfile

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// missingFunctions are Nomad's functions that this package does not have, so
// that their use is a refusal and not taken for a slip of the pen.
var missingFunctions = map[string]bool{
	"bcrypt": true, "cidrhost": true, "cidrnetmask": true, "cidrsubnet": true,
	"cidrsubnets": true, "fileset": true, "rsadecrypt": true, "uuidv5": true,
	"yamldecode": true, "yamlencode": true,
}

// functions are the functions of a job file. Relative paths start at dir, the
// folder of the job file.
func functions(dir string) map[string]function.Function {
	fs := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc,
		"log": stdlib.LogFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
		"parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
		"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc,
		"regex_replace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc,
		"strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

		"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"index": indexFunc, "keys": stdlib.KeysFunc, "length": lengthFunc, "lookup": stdlib.LookupFunc,
		"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
		"setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
		"values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
		"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,
		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "convert": typeexpr.ConvertFunc,

		"base64encode": textFunc(func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }),
		"base64decode": textFunc(base64decode),
		"urlencode":    textFunc(func(s string) (string, error) { return url.QueryEscape(s), nil }),
		"md5":          textFunc(func(s string) (string, error) { b := md5.Sum([]byte(s)); return hex.EncodeToString(b[:]), nil }),
		"sha1":         textFunc(func(s string) (string, error) { b := sha1.Sum([]byte(s)); return hex.EncodeToString(b[:]), nil }),
		"sha256": textFunc(func(s string) (string, error) {
			b := sha256.Sum256([]byte(s))
			return hex.EncodeToString(b[:]), nil
		}),
		"sha512": textFunc(func(s string) (string, error) {
			b := sha512.Sum512([]byte(s))
			return hex.EncodeToString(b[:]), nil
		}),
		"timestamp": valueFunc(func() string { return time.Now().UTC().Format(time.RFC3339) }),
		"uuidv4":    valueFunc(uuid.NewString),

		"basename": textFunc(func(s string) (string, error) { return filepath.Base(s), nil }),
		"dirname":  textFunc(func(s string) (string, error) { return filepath.Dir(s), nil }),
		"abspath":  textFunc(filepath.Abs),
	}
	addFileFunctions(fs, dir)
	return fs
}

func addFileFunctions(fs map[string]function.Function, dir string) {
	read := func(path string) (string, error) {
		b, err := os.ReadFile(resolve(dir, path))
		return string(b), err
	}
	fs["file"] = textFunc(func(path string) (string, error) {
		s, err := read(path)
		if err == nil && !utf8.ValidString(s) {
			err = fmt.Errorf("%s is not UTF-8 text; use filebase64", path)
		}
		return s, err
	})
	fs["filebase64"] = textFunc(func(path string) (string, error) {
		s, err := read(path)
		return base64.StdEncoding.EncodeToString([]byte(s)), err
	})
	fs["fileexists"] = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			info, err := os.Stat(resolve(dir, args[0].AsString()))
			return cty.BoolVal(err == nil && info.Mode().IsRegular()), nil
		},
	})
	fs["pathexpand"] = textFunc(func(path string) (string, error) {
		if path != "~" && (len(path) < 2 || path[:2] != "~/") {
			return path, nil
		}
		home, err := os.UserHomeDir()
		return filepath.Join(home, path[1:]), err
	})
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// textFunc makes a function of one string.
func textFunc(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			if err != nil {
				return cty.UnknownVal(cty.String), err
			}
			return cty.StringVal(s), nil
		},
	})
}

// valueFunc makes a function without parameters.
func valueFunc(f func() string) function.Function {
	return function.New(&function.Spec{
		Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.StringVal(f()), nil },
	})
}

func base64decode(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("the decoded bytes are not UTF-8 text")
	}
	return string(b), err
}

// lengthFunc counts the elements of a collection or the characters of a text.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		t := args[0].Type()
		if t == cty.String || t == cty.DynamicPseudoType || t.IsCollectionType() || t.IsTupleType() || t.IsObjectType() {
			return cty.Number, nil
		}
		return cty.Number, fmt.Errorf("a string, list, set or map is required")
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[0].Type() == cty.String {
			return stdlib.Strlen(args[0])
		}
		if args[0].Type().IsObjectType() {
			return cty.NumberIntVal(int64(len(args[0].Type().AttributeTypes()))), nil
		}
		return stdlib.Length(args[0])
	},
})

// indexFunc finds a value in a list.
var indexFunc = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "list", Type: cty.DynamicPseudoType},
		{Name: "value", Type: cty.DynamicPseudoType},
	},
	Type: function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if t := args[0].Type(); !t.IsListType() && !t.IsTupleType() {
			return cty.UnknownVal(cty.Number), fmt.Errorf("the first argument must be a list")
		}
		i := int64(0)
		for it := args[0].ElementIterator(); it.Next(); i++ {
			if _, v := it.Element(); v.RawEquals(args[1]) {
				return cty.NumberIntVal(i), nil
			}
		}
		return cty.UnknownVal(cty.Number), fmt.Errorf("the list does not hold that value")
	},
})
