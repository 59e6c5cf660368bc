package jobfile

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Pos is a place in a job file. Line is 0 where no line can be named.
type Pos struct {
	File string
	Line int
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func posOf(r hcl.Range) Pos { return Pos{File: r.Filename, Line: r.Start.Line} }

// Note is something in the file that has no effect here, and why.
type Note struct {
	Pos  Pos
	Text string
}

func (n Note) String() string { return n.Pos.String() + ": " + n.Text }

// Kind tells a mistake from something that is right but not offered here.
type Kind string

const (
	// Fault is a mistake in the file: Nomad would refuse it as well.
	Fault Kind = "fault"
	// Refused is valid in Nomad and not offered without a cluster.
	Refused Kind = "refused"
)

// Problem is one reason why a job file is not run.
type Problem struct {
	Pos  Pos
	Kind Kind
	Text string
}

func (p Problem) String() string { return p.Pos.String() + ": " + p.Text }

// Error holds every problem of a job file, in file order.
type Error struct {
	Problems []Problem
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems:", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// Faulty tells whether any problem is a mistake rather than a refusal.
func (e *Error) Faulty() bool {
	for _, p := range e.Problems {
		if p.Kind == Fault {
			return true
		}
	}
	return false
}

// report collects problems and notes while a file is read.
type report struct {
	src      []byte // of the file
	cluster  bool   // see Options
	problems []Problem
	notes    []Note
	unread   []Note // see Job
}

func (r *report) fault(at hcl.Range, format string, args ...any) {
	r.problems = append(r.problems, Problem{posOf(at), Fault, fmt.Sprintf(format, args...)})
}

func (r *report) refuse(at hcl.Range, format string, args ...any) {
	if r.cluster {
		return
	}
	r.problems = append(r.problems, Problem{posOf(at), Refused, fmt.Sprintf(format, args...)})
}

func (r *report) note(at hcl.Range, format string, args ...any) {
	if r.cluster {
		return
	}
	r.notes = append(r.notes, Note{posOf(at), fmt.Sprintf(format, args...)})
}

// diags adds the errors of an HCL operation and tells whether there were any.
func (r *report) diags(diags hcl.Diagnostics) bool {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := d.Summary
		if d.Detail != "" {
			text += ": " + d.Detail
		}
		var at hcl.Range
		if d.Subject != nil {
			at = *d.Subject
		}
		if call, ok := d.Extra.(hclsyntax.FunctionCallUnknownDiagExtra); ok && missingFunctions[call.CalledFunctionName()] {
			r.refuse(at, "the function %s is not supported by run: put its result into the file", call.CalledFunctionName())
			continue
		}
		if what := undeclared(d); what != "" {
			text = what
		}
		if what := pitfall(d, lineOf(r.src, at.Start.Line), blockAt(r.src, at.Start.Line)); what != "" {
			text = d.Summary + ": " + what
		}
		r.fault(at, "%s", text)
	}
	return diags.HasErrors()
}

// undeclared tells of a reference to a variable or local that does not exist;
// HCL calls it an attribute of some object.
func undeclared(d *hcl.Diagnostic) string {
	e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
	if !ok || d.EvalContext == nil || len(e.Traversal) < 2 {
		return ""
	}
	kind := map[string]string{"var": "variable", "local": "local"}[e.Traversal.RootName()]
	step, ok := e.Traversal[1].(hcl.TraverseAttr)
	known := d.EvalContext.Variables[e.Traversal.RootName()]
	if !ok || kind == "" || known == cty.NilVal || known.Type().HasAttribute(step.Name) {
		return ""
	}
	return fmt.Sprintf("the job file declares no %s %q%s", kind, step.Name, suggest(step.Name, sortedKeys(known.Type().AttributeTypes())))
}

// err is nil or an *Error with the problems in file order, each once.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := append([]Problem(nil), r.problems...)
	sort.SliceStable(all, func(i, j int) bool { return before(all[i].Pos, all[j].Pos) })
	once := all[:0]
	for i, p := range all {
		if i == 0 || p != all[i-1] {
			once = append(once, p)
		}
	}
	return &Error{Problems: once}
}

func (r *report) sortedNotes() []Note {
	sort.SliceStable(r.notes, func(i, j int) bool { return before(r.notes[i].Pos, r.notes[j].Pos) })
	return r.notes
}

func before(a, b Pos) bool {
	if a.File != b.File {
		return a.File < b.File
	}
	return a.Line < b.Line
}
