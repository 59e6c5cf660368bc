package control

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Kinds of records.
const (
	kindDecision = "decision" // the verdict on one request
	kindEnd      = "end"      // the end of a flow, with what it cost
	KindGap      = "gap"      // records are missing here
)

// recordVersion is Record.V.
const recordVersion = 1

// droppedSource begins the rule source of a sidecar's report that it lost
// records; the number follows.
const droppedSource = "egress.decisions.dropped:"

// Record is one line of decisions.jsonl. Fields that do not apply are left
// out. Queries, headers and bodies are in none of them.
type Record struct {
	V int `json:"v"`
	// Seq numbers a run's records from 1. Numbers that are missing are those
	// of a gap record, which has none itself.
	Seq    uint64    `json:"seq,omitempty"`
	RunID  uuid.UUID `json:"run_id"`
	FlowID string    `json:"flow_id,omitempty"`
	// FlowSeq is the sidecar's own number of the record.
	FlowSeq  uint64          `json:"flow_seq,omitempty"`
	Time     time.Time       `json:"time"`
	Kind     string          `json:"kind"`
	Decision egress.Decision `json:"decision,omitempty"`
	// Code is why: the rule source, such as "policy:default-deny".
	Code       string      `json:"code,omitempty"`
	Rule       *RecordRule `json:"rule,omitempty"`
	PolicyHash string      `json:"policy_hash,omitempty"`

	// Direction is "inbound" for a client of one of the task's ports: Host is
	// then the client and Port the port it came to.
	Direction     string   `json:"direction,omitempty"`
	Scheme        string   `json:"scheme,omitempty"`
	Host          string   `json:"host,omitempty"`
	Port          int      `json:"port,omitempty"`
	Method        string   `json:"method,omitempty"`
	Path          string   `json:"path,omitempty"`
	Resolved      []string `json:"resolved_ips,omitempty"`
	Dialed        string   `json:"dialed_ip,omitempty"`
	UpstreamProxy bool     `json:"upstream_proxy,omitempty"`
	SNI           string   `json:"sni,omitempty"`
	ALPN          string   `json:"alpn,omitempty"`
	MITM          bool     `json:"mitm,omitempty"`
	Visibility    string   `json:"visibility,omitempty"`

	Injected   *RecordInjected     `json:"injected,omitempty"`
	ApprovalID *uuid.UUID          `json:"approval_id,omitempty"`
	Scan       *egress.ScanSummary `json:"scan,omitempty"`
	Cause      string              `json:"cause,omitempty"`
	Hint       string              `json:"hint,omitempty"` // what an author or operator can change

	Status     int    `json:"status,omitempty"`
	BytesUp    int64  `json:"bytes_up,omitempty"`
	BytesDown  int64  `json:"bytes_down,omitempty"`
	DNSMillis  int64  `json:"ms_dns,omitempty"`
	DialMillis int64  `json:"ms_connect,omitempty"`
	Millis     int64  `json:"ms_total,omitempty"`
	Close      string `json:"close_reason,omitempty"`

	Gap *RecordGap `json:"gap,omitempty"`
}

// RecordRule is the rule that decided.
type RecordRule struct {
	Source string `json:"source"`
	ID     string `json:"id,omitempty"` // the policy's entry as written
}

// RecordInjected names the rule a credential was added by.
type RecordInjected struct {
	RuleID string `json:"rule_id"`
}

// RecordGap says that N records are missing. Those that the files had no room
// for are numbered From to To; of several records with one From the last
// counts. What a sidecar lost has no numbers.
type RecordGap struct {
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	N    uint64 `json:"n"`
}

// flatten brings a sidecar's record into the file's shape, without a number.
func flatten(l egress.DecisionLog) Record {
	f := l.Flow
	if f == nil {
		f = &egress.FlowDetail{}
	}
	r := Record{
		V: recordVersion, RunID: l.Request.RunID, FlowID: f.FlowID, FlowSeq: f.Seq,
		Time: l.Request.Time.UTC(), Kind: f.Kind, Decision: l.Decision, Code: l.RuleSource,
		Rule: &RecordRule{Source: l.RuleSource, ID: f.Rule}, Direction: f.Direction, Scheme: f.Scheme,
		Host: l.Request.Host, Port: l.Request.Port, Method: l.Request.Method, Path: withoutQuery(l.Request.Path),
		Resolved: f.Resolved, Dialed: f.Dialed, UpstreamProxy: l.Via == viaUpstream,
		SNI: f.SNI, ALPN: f.ALPN, MITM: f.MITM, Visibility: f.Visibility,
		ApprovalID: l.ApprovalID, Scan: l.Scan, Cause: l.Cause, Hint: f.Hint,
		Status: f.Status, BytesUp: f.BytesUp, BytesDown: f.BytesDown,
		DNSMillis: f.DNSMillis, DialMillis: f.DialMillis, Millis: f.Millis, Close: f.Close,
	}
	if r.Kind == "" {
		r.Kind = kindDecision
	}
	if f.InjectedBy != "" {
		r.Injected = &RecordInjected{RuleID: f.InjectedBy}
	}
	if n, ok := droppedBySidecar(l.RuleSource); ok {
		r.Kind, r.Decision, r.Rule, r.Gap = KindGap, "", nil, &RecordGap{N: n}
	}
	return r
}

const (
	viaUpstream = "upstream-proxy"
	viaDirect   = "direct"
)

// unflatten brings a line back into the sidecar's shape.
func unflatten(r Record) egress.DecisionLog {
	l := egress.DecisionLog{
		Request:  egress.Request{RunID: r.RunID, Host: r.Host, Port: r.Port, Method: r.Method, Path: r.Path, Time: r.Time},
		Decision: r.Decision, RuleSource: r.Code, ApprovalID: r.ApprovalID, Scan: r.Scan, Cause: r.Cause, Via: viaDirect,
		Flow: &egress.FlowDetail{
			Version: r.V, Seq: r.Seq, FlowID: r.FlowID, Kind: r.Kind, Hint: r.Hint, Direction: r.Direction, Scheme: r.Scheme,
			Resolved: r.Resolved, Dialed: r.Dialed, SNI: r.SNI, ALPN: r.ALPN, MITM: r.MITM, Visibility: r.Visibility,
			Status: r.Status, BytesUp: r.BytesUp, BytesDown: r.BytesDown,
			DNSMillis: r.DNSMillis, DialMillis: r.DialMillis, Millis: r.Millis, Close: r.Close,
		},
	}
	if r.UpstreamProxy {
		l.Via = viaUpstream
	}
	if r.Rule != nil {
		l.Flow.Rule = r.Rule.ID
	}
	if r.Injected != nil {
		l.Flow.InjectedBy = r.Injected.RuleID
	}
	return l
}

func droppedBySidecar(source string) (uint64, bool) {
	s, ok := strings.CutPrefix(source, droppedSource)
	n, err := strconv.ParseUint(s, 10, 64)
	return n, ok && err == nil
}

// withoutQuery is a path as it may be kept. The sidecar keeps none either.
func withoutQuery(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return path[:i]
	}
	return path
}

// line is a record as a line of JSON that is safe to show: what a terminal or
// a reader's eye would act on (escape sequences, reordering, invisible
// characters) is written as \uXXXX.
func line(r Record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("decision record: %w", err)
	}
	return append(clean.Visible(b), '\n'), nil
}
