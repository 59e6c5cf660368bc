package egress

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Decision is the outcome of one request.
type Decision string

// The outcomes: it was let through, it was refused, or it was refused while
// somebody is asked about it.
const (
	Allow   Decision = "allow"
	Deny    Decision = "deny"
	Pending Decision = "pending"
)

// Request is what a sandbox asked for. It marshals under the Go field names.
type Request struct {
	RunID  uuid.UUID
	Host   string
	Port   int
	Method string
	Path   string // without the query, which is never kept
	Time   time.Time
}

// DecisionLog is one decision as the sidecar posts it to its control plane and
// prints it on stdout.
type DecisionLog struct {
	Request    Request      `json:"request"`
	Decision   Decision     `json:"decision"`
	RuleSource string       `json:"rule_source"`
	ApprovalID *uuid.UUID   `json:"approval_id,omitempty"`
	Scan       *ScanSummary `json:"scan,omitempty"`
	// Cause is a masked sentence that names the failing stage or the rule.
	Cause string `json:"cause,omitempty"`
	// Via is "direct" or "upstream-proxy".
	Via string `json:"via,omitempty"`
	// Flow is what the reference shape has no word for; see FlowDetail.
	Flow *FlowDetail `json:"flow,omitempty"`
}

// Inbound is the direction of a flow that came in by a port of the task's.
const Inbound = "inbound"

// FlowDetail carries the rest of a record: which flow, which of its two
// records, the rule that matched, what was dialled and what it cost.
type FlowDetail struct {
	Version int    `json:"v"`
	Seq     uint64 `json:"seq"`
	FlowID  string `json:"flow_id"`
	// Kind is "decision" for the verdict and "end" for the end of the flow.
	Kind string `json:"kind"`
	// Direction is Inbound where a client came to the sandbox: Request.Host is
	// then the client's address, Request.Port the port it connected to, and
	// BytesUp is what it was sent. It is left out otherwise.
	Direction string   `json:"direction,omitempty"`
	Rule      string   `json:"rule,omitempty"` // the policy entry that matched, as written
	Hint      string   `json:"hint,omitempty"` // what an author or operator can change
	Scheme    string   `json:"scheme,omitempty"`
	Resolved  []string `json:"resolved_ips,omitempty"`
	Dialed    string   `json:"dialed_ip,omitempty"`
	// IPVetted is false where an upstream proxy resolves the name, so that the
	// address guard covered literals only; it is left out otherwise.
	IPVetted   *bool  `json:"ip_vetted,omitempty"`
	SNI        string `json:"sni,omitempty"`
	ALPN       string `json:"alpn,omitempty"`
	MITM       bool   `json:"mitm,omitempty"`
	Visibility string `json:"visibility,omitempty"` // host, sni, full
	InjectedBy string `json:"injected_rule,omitempty"`
	Status     int    `json:"status,omitempty"`
	BytesUp    int64  `json:"bytes_up,omitempty"`
	BytesDown  int64  `json:"bytes_down,omitempty"`
	DNSMillis  int64  `json:"ms_dns,omitempty"`
	DialMillis int64  `json:"ms_connect,omitempty"`
	Millis     int64  `json:"ms_total,omitempty"`
	Close      string `json:"close_reason,omitempty"`
}

// ScanSummary says what a content scan found. It never holds matched bytes:
// Sample is a mask.
type ScanSummary struct {
	Scanned    bool          `json:"scanned"`
	Coverage   string        `json:"coverage,omitempty"` // inspectable, tunneled-opaque
	Mode       string        `json:"mode,omitempty"`
	Action     string        `json:"action,omitempty"` // alert, block, skipped, blind, error
	Channel    string        `json:"channel,omitempty"`
	Skipped    bool          `json:"skipped,omitempty"`
	SkipReason string        `json:"skip_reason,omitempty"`
	Findings   []ScanFinding `json:"findings,omitempty"`
}

// ScanFinding is one finding of a scan.
type ScanFinding struct {
	Detector  string `json:"detector"`
	Category  string `json:"category"`
	FieldPath string `json:"field_path"`
	Offset    int    `json:"offset"`
	Length    int    `json:"length"`
	Severity  string `json:"severity"`
	Sample    string `json:"sample"`
}

// Opinion is an Evaluator's answer.
type Opinion int

const (
	// Unknown means that no entry speaks of the host: a plain miss.
	Unknown Opinion = iota
	// Allowed: an entry covers it, and none of the deny list does.
	Allowed
	// Denied: an entry of the deny list covers it.
	Denied
)

// Evaluator judges hosts and methods. Address guard, approvals, dialling and
// injection are not pluggable. An error is a deny with the rule source
// "policy:evaluator-error".
type Evaluator interface {
	Name() string
	EvaluateHost(ctx context.Context, r Request) (Opinion, error)
	MethodAllowed(method string) bool
}
