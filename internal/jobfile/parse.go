package jobfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Options are what a job file is read with.
type Options struct {
	// Values are those of the file's variables.
	Values Values
	// Dir is where relative paths in file() start; "" is the file's own folder.
	Dir string
	// Dispatch is what a parameterized job is given; nil gives nothing. A job
	// that needs more, or is given what it does not take, is refused.
	Dispatch *Dispatch
	// HostVolumes are folders of this machine by the names that a client's
	// configuration would give them as host volumes.
	HostVolumes map[string]string
	// NomadVars are those that templates may read.
	NomadVars NomadVars
	// Cluster reads a file that a cluster will run: what one node cannot do is
	// neither refused nor noted, tasks of every driver are read, and a faulty
	// file gives what could be read of it beside the error.
	Cluster bool
}

// parser is the state of reading one file.
type parser struct {
	report
	options   Options
	ctx       *hcl.EvalContext
	vars      map[string]*variable
	namespace string // the job's
}

// ParseFile reads the job file at path; see Parse.
func ParseFile(path string, o Options) (*Job, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("job file: %w", err)
	}
	if o.Dir == "" {
		o.Dir = filepath.Dir(path)
	}
	return Parse(path, src, o)
}

// Parse reads a job file. The error is an *Error with everything that is wrong,
// or that a file of values could not be read. When its problems are all of kind
// Refused, the job is returned beside it.
func Parse(name string, src []byte, o Options) (*Job, error) {
	p := &parser{report: report{src: src, cluster: o.Cluster}, options: o, vars: map[string]*variable{}}
	if strings.HasSuffix(name, ".json") {
		p.fault(hcl.Range{Filename: name}, "job files in JSON are not read; use the HCL form")
		return nil, p.err()
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if p.diags(diags) {
		return nil, p.err()
	}
	values, err := o.Values.readFiles()
	if err != nil {
		return nil, err
	}
	s := p.open("the file", file.Body.(*hclsyntax.Body), fileRules)
	p.prepare(s, o, values)
	job := p.theJob(s, name)
	err = p.err()
	if e, ok := err.(*Error); ok && e.Faulty() && (!o.Cluster || job == nil) {
		return nil, err
	}
	job.Ignored, job.Unread = p.sortedNotes(), p.unread
	return job, err
}

// prepare sets the evaluation context up: functions, variables, locals, and the
// texts of the references that stay.
func (p *parser) prepare(s section, o Options, files []valueFile) {
	texts := map[string]cty.Value{}
	for _, kind := range []string{"job", "locals"} {
		for _, b := range s.blocks[kind] {
			keepReferences(b.Body, p.src, texts)
		}
	}
	p.ctx = &hcl.EvalContext{Functions: functions(o.Dir), Variables: texts}
	for _, b := range s.blocks["variable"] {
		p.declare(b)
	}
	for _, b := range s.blocks["variables"] {
		p.noBlocks("variables", b)
		p.declareShort(b)
	}
	p.assign(o.Values, files)
	p.bindVariables()
	for _, b := range s.blocks["locals"] {
		p.noBlocks("locals", b)
	}
	p.bindLocals(s.blocks["locals"])
}

func (p *parser) theJob(s section, name string) *Job {
	b := s.single("job")
	if b == nil {
		p.fault(hcl.Range{Filename: name}, `there is no job block: job "example" { ... }`)
		return nil
	}
	return p.job(b)
}

func (p *parser) job(b *hclsyntax.Block) *Job {
	name, _ := p.label(b)
	s := p.open(fmt.Sprintf("job %q", name), b.Body, jobRules)
	j := &Job{ID: name, Name: name, Namespace: "default", Type: "service"}
	s.read("id", &j.ID)
	s.read("name", &j.Name)
	s.read("namespace", &j.Namespace)
	p.namespace = j.Namespace
	s.read("region", &j.Region)
	s.oneOf("type", &j.Type, "service", "batch", "system", "sysbatch")
	j.Meta = s.pairs("meta", nil)
	p.parameterized(s, j, b)
	seen := map[string]*hclsyntax.Block{}
	for _, gb := range s.blocks["group"] {
		if g, ok := p.group(gb, j); ok && p.unique(gb, seen) {
			j.Groups = append(j.Groups, g)
		}
	}
	if len(s.blocks["group"]) == 0 && !s.dynamic["group"] {
		p.fault(b.DefRange(), "%s: there is no group in it", s.where)
	}
	return j
}

// unique complains about a second block of one kind with the same label.
func (p *parser) unique(b *hclsyntax.Block, seen map[string]*hclsyntax.Block) bool {
	if old, twice := seen[b.Labels[0]]; twice {
		p.fault(b.DefRange(), "a second %s named %q, the first is at %s", b.Type, b.Labels[0], posOf(old.DefRange()))
		return false
	}
	seen[b.Labels[0]] = b
	return true
}
