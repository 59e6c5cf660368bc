package hclspec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
)

// Lint reports what a client would take without a word and then get wrong: a name left out
// where none is implied, a block without content, and a top level that is no object. All
// faults come in one error.
func Lint(s *Spec) error {
	if s.GetObject() == nil {
		return errors.New("hclspec: the top level is no object: clients from 2.0.3 on stop at it")
	}
	return errors.Join(lint("", s, true)...)
}

// lint walks s. implied says whether the client would take a missing name from the enclosing
// object.
func lint(path string, s *Spec, implied bool) []error {
	switch b := s.GetBlock().(type) {
	case *hclspecpb.Spec_Object:
		return lintObject(path, b.Object)
	case *hclspecpb.Spec_Array:
		var errs []error
		for i, v := range b.Array.GetValues() {
			errs = append(errs, lint(fmt.Sprintf("%s[%d]", path, i), v, false)...)
		}
		return errs
	case *hclspecpb.Spec_Default:
		return append(lint(path+".primary", b.Default.GetPrimary(), false),
			lint(path+".default", b.Default.GetDefault(), false)...)
	case *hclspecpb.Spec_Attr:
		return lintNamed(path, b.Attr.GetName(), implied)
	case *hclspecpb.Spec_BlockAttrs:
		return lintNamed(path, b.BlockAttrs.GetName(), implied)
	case *hclspecpb.Spec_BlockValue:
		return lintBlock(path, b.BlockValue.GetName(), implied, b.BlockValue.GetNested())
	case *hclspecpb.Spec_BlockList:
		return lintBlock(path, b.BlockList.GetName(), implied, b.BlockList.GetNested())
	case *hclspecpb.Spec_BlockSet:
		return lintBlock(path, b.BlockSet.GetName(), implied, b.BlockSet.GetNested())
	case *hclspecpb.Spec_BlockMap:
		return lintBlock(path, b.BlockMap.GetName(), implied, b.BlockMap.GetNested())
	case *hclspecpb.Spec_Literal:
		return nil
	default:
		return []error{fmt.Errorf("hclspec: %s is empty", path)}
	}
}

func lintObject(path string, o *hclspecpb.Object) []error {
	keys := make([]string, 0, len(o.GetAttributes()))
	for key := range o.GetAttributes() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var errs []error
	for _, key := range keys {
		errs = append(errs, lint(path+"."+key, o.GetAttributes()[key], true)...)
	}
	return errs
}

func lintBlock(path, name string, implied bool, nested *Spec) []error {
	return append(lintNamed(path, name, implied), lint(path, nested, false)...)
}

func lintNamed(path, name string, implied bool) []error {
	if name != "" || implied {
		return nil
	}
	return []error{fmt.Errorf("hclspec: %s has no name and none is implied there", path)}
}
