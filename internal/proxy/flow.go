package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// flowIDs makes ids that are unique in a run, across restarts of the sidecar.
type flowIDs struct {
	prefix string
	n      *atomic.Uint64
}

func newFlowIDs() flowIDs {
	var b [6]byte
	rand.Read(b[:]) // crypto/rand does not fail
	return flowIDs{prefix: hex.EncodeToString(b[:]) + "-", n: new(atomic.Uint64)}
}

func (f flowIDs) next() string { return f.prefix + strconv.FormatUint(f.n.Add(1), 10) }

// ask is a request as the sandbox made it, before anything was judged.
type ask struct {
	host      string // as on the wire, without the port
	port      int    // -1 for one that is no port
	method    string
	path      string // without the query
	scheme    string // "http" or "https"; the method tells a tunnel
	cleartext bool
}

// flow is one request or tunnel from its first byte to its end. It belongs to
// one goroutine, except for the fields of its detail that close it.
type flow struct {
	s      *Server
	ask    ask
	start  time.Time
	detail egress.FlowDetail
	ruling policy.Ruling
	judged bool
	via    string
}

func (s *Server) newFlow(a ask) *flow {
	return &flow{s: s, ask: a, start: time.Now(), detail: egress.FlowDetail{FlowID: s.flowSeq.next(), Scheme: a.scheme}, via: "direct"}
}

// viaParent notes that an upstream proxy carries the flow and resolves its name.
func (f *flow) viaParent() {
	f.via, f.detail.IPVetted = "upstream-proxy", new(bool)
}

// verdict writes the flow's one verdict record. Later calls do nothing, so that
// no path can log twice.
func (f *flow) verdict(r policy.Ruling, status int) {
	if f.judged {
		return
	}
	f.judged, f.ruling = true, r
	d := f.detail
	d.Kind, d.Rule, d.Hint, d.Status = "decision", r.Rule, r.Hint, status
	if r.OK() {
		d.Hint = ""
	} else {
		f.s.recent.add(refusal{
			Time: time.Now().UTC(), Decision: r.Decision, Code: r.Source, Host: printable(f.ask.host), Port: f.ask.port,
			Method: printable(f.ask.method), Rule: r.Rule, Cause: r.Cause, Hint: r.Hint, ApprovalID: r.Approval, DecisionID: d.FlowID,
		})
	}
	f.emit(r, d)
}

// end writes the end record of a flow that was let through.
func (f *flow) end(up, down int64, reason string) {
	if !f.judged || !f.ruling.OK() {
		return
	}
	d := f.detail
	d.Kind, d.BytesUp, d.BytesDown, d.Close = "end", up, down, reason
	d.Millis = time.Since(f.start).Milliseconds()
	r := f.ruling
	if reason == revoked {
		r.Source = policy.Revoked
	}
	f.emit(r, d)
}

func (f *flow) emit(r policy.Ruling, d egress.FlowDetail) {
	if f.s.o.Sink == nil {
		return
	}
	f.s.o.Sink.Record(egress.DecisionLog{
		Request: egress.Request{
			RunID: f.s.runID, Host: printable(f.ask.host), Port: max(f.ask.port, 0), Method: printable(f.ask.method),
			Path: printable(f.ask.path), Time: f.start.UTC(),
		},
		Decision: r.Decision, RuleSource: r.Source, ApprovalID: r.Approval, Cause: r.Cause, Via: f.via, Flow: &d,
	})
}

// printable keeps records and phrases readable whatever a sandbox sent: bytes
// outside printable ASCII become escapes, and long text is cut.
func printable(s string) string {
	const most = 2048
	clean := len(s) <= most
	for i := 0; clean && i < len(s); i++ {
		clean = s[i] >= ' ' && s[i] < 0x7f
	}
	if clean {
		return s
	}
	if len(s) > most {
		s = s[:most] + "..."
	}
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		if s[i] >= ' ' && s[i] < 0x7f {
			b = append(b, s[i])
			continue
		}
		b = append(b, '\\', 'x')
		b = hex.AppendEncode(b, []byte{s[i]})
	}
	return string(b)
}

// refusal is one line of the local denials route.
type refusal struct {
	Time       time.Time       `json:"time"`
	Decision   egress.Decision `json:"decision"`
	Code       string          `json:"code"`
	Host       string          `json:"host"`
	Port       int             `json:"port"`
	Method     string          `json:"method"`
	Rule       string          `json:"rule,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	Hint       string          `json:"hint,omitempty"`
	ApprovalID any             `json:"approval_id,omitempty"`
	DecisionID string          `json:"decision_id"`
}

// refusals remembers the last few refusals for the sandbox to ask about.
type refusals struct {
	mu   sync.Mutex
	ring []refusal
	next int
}

const keptRefusals = 100

func (r *refusals) add(x refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < keptRefusals {
		r.ring = append(r.ring, x)
		return
	}
	r.ring[r.next] = x
	r.next = (r.next + 1) % keptRefusals
}

// last returns up to n refusals, newest first.
func (r *refusals) last(n int) []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]refusal, 0, min(n, len(r.ring)))
	for i := range r.ring {
		if len(out) == n {
			break
		}
		at := (r.next - 1 - i + 2*len(r.ring)) % len(r.ring)
		out = append(out, r.ring[at])
	}
	return out
}
