package jobfile

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Dispatch is what one run of a parameterized job is given.
type Dispatch struct {
	Payload []byte            // at most MaxPayload; empty is none
	Meta    map[string]string // by key
}

// MaxPayload is what a Nomad server takes as a payload, in bytes.
const MaxPayload = 16 << 10

// parameterized reads what a dispatch of the job may and must bring. Where the
// job is run, the dispatch is held against it and its meta goes into the job's.
func (p *parser) parameterized(s section, j *Job, job *hclsyntax.Block) {
	b := s.single("parameterized")
	if b == nil {
		if p.options.Dispatch != nil {
			p.fault(job.DefRange(), "%s: it has no parameterized block, so it takes neither -meta nor -payload", s.where)
		}
		return
	}
	j.Dispatched = true
	if !j.Batch() {
		p.fault(b.DefRange(), `%s: parameterized: a job of type %q cannot be dispatched; write type = "batch" or "sysbatch"`, s.where, j.Type)
	}
	ps := p.open(s.where+": parameterized", b.Body, parameterizedRules)
	payload, required, optional := "optional", []string(nil), []string(nil)
	ps.oneOf("payload", &payload, "", "optional", "required", "forbidden")
	ps.read("meta_required", &required)
	ps.read("meta_optional", &optional)
	for _, key := range required {
		if slices.Contains(optional, key) {
			p.fault(ps.attrs["meta_optional"].Range(), "%s: meta_optional: %q is in meta_required too; keep one", ps.where, key)
		}
	}
	if p.cluster {
		return
	}
	given := Dispatch{}
	if p.options.Dispatch != nil {
		given = *p.options.Dispatch
	}
	p.judgePayload(ps, b, payload, len(given.Payload))
	p.judgeMeta(ps, b, required, optional, given.Meta)
	for _, key := range optional {
		if _, ok := j.Meta[key]; !ok {
			j.Meta[key] = "" // as a client has it, so that references to it are empty
		}
	}
	maps.Copy(j.Meta, given.Meta)
	j.Payload = given.Payload
}

func (p *parser) judgePayload(s section, b *hclsyntax.Block, rule string, size int) {
	switch {
	case rule == "required" && size == 0:
		p.refuse(b.DefRange(), `%s: payload = "required", and none is given: run -payload FILE`, s.where)
	case rule == "forbidden" && size > 0:
		p.refuse(s.attrs["payload"].Range(), `%s: payload = "forbidden", and one is given: leave -payload out`, s.where)
	case size > MaxPayload:
		p.refuse(b.DefRange(), "%s: the payload has more than the %d bytes that a server takes", s.where, MaxPayload)
	}
}

func (p *parser) judgeMeta(s section, b *hclsyntax.Block, required, optional []string, given map[string]string) {
	for _, key := range required {
		if _, ok := given[key]; !ok {
			p.refuse(s.attrs["meta_required"].Range(), "%s: meta_required: %q is not given: run -meta %s=VALUE", s.where, key, key)
		}
	}
	known := slices.Concat(required, optional)
	for _, key := range sortedKeys(given) {
		if !slices.Contains(known, key) {
			p.refuse(b.DefRange(), "%s: -meta %s is in neither meta_required nor meta_optional%s", s.where, key, suggest(key, known))
		}
	}
}

// payloadFile reads where a task finds the payload, below its local directory;
// "" when it does not ask for it.
func (p *parser) payloadFile(s section) string {
	b := s.single("dispatch_payload")
	if b == nil {
		return ""
	}
	ds := p.open(s.where+": dispatch_payload", b.Body, dispatchPayloadRules)
	file := ""
	if !ds.read("file", &file) || file == "" {
		return "" // as Nomad has it, which writes none then
	}
	// As Nomad has it, a file beside local is allowed.
	if clean := path.Join("task/local", file); clean == ".." || strings.HasPrefix(clean, "../") {
		p.fault(ds.attrs["file"].Range(), "%s: file = %q lies outside the allocation's directory", ds.where, file)
		return ""
	}
	return file
}
