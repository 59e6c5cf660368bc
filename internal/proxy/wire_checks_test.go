package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func (w *wireRun) check(t *testing.T) {
	t.Helper()
	for _, problem := range []func() string{w.checkAnswer, w.checkThen} {
		if p := problem(); p != "" {
			t.Errorf("%s (%s)", p, w.c.Why)
		}
	}
	// The client may have its answer before these are done with.
	for _, problem := range []func() string{w.checkUpstream, w.checkCalls, w.checkRecords} {
		var p string
		if !eventually(patience, func() bool { p = problem(); return p == "" }) {
			t.Errorf("%s (%s)", p, w.c.Why)
		}
	}
}

func (w *wireRun) checkAnswer() string {
	want := w.c.Want
	switch {
	case w.first == nil && !w.gotBytes && w.closed:
		if !want.Status.has("close") {
			return fmt.Sprintf("closed without a byte, want status %v", want.Status)
		}
	case w.first == nil:
		return "no answer"
	case !want.Status.has(w.first.StatusCode):
		return fmt.Sprintf("status %s, want %v", w.first.Status, want.Status)
	case !strings.Contains(w.first.Status, want.Reason):
		return fmt.Sprintf("status line %q does not contain %q", w.first.Status, want.Reason)
	case !strings.Contains(string(w.body), want.Body):
		return fmt.Sprintf("body %q does not contain %q", w.body, want.Body)
	}
	if want.Statuses != nil && !slices.Equal(w.statuses, want.Statuses) {
		return fmt.Sprintf("statuses %v, want %v", w.statuses, want.Statuses)
	}
	if want.Responses != nil && len(w.statuses) != *want.Responses {
		return fmt.Sprintf("%d answers, want %d", len(w.statuses), *want.Responses)
	}
	if want.Closed != nil && w.closed != *want.Closed {
		return fmt.Sprintf("closed %t, want %t", w.closed, *want.Closed)
	}
	return w.checkClientHeader()
}

func (w *wireRun) checkClientHeader() string {
	for name, want := range w.c.Want.ClientHeader {
		got, there := w.first.Header[http.CanonicalHeaderKey(name)]
		switch v := want.(type) {
		case nil:
			if there {
				return fmt.Sprintf("the client saw %s: %q", name, got)
			}
		case bool:
			if !there {
				return fmt.Sprintf("the client did not see %s", name)
			}
		default:
			if len(got) != 1 || got[0] != v {
				return fmt.Sprintf("the client saw %s: %q, want %q", name, got, v)
			}
		}
	}
	return ""
}

func (w *wireRun) checkThen() string {
	if w.c.Want.Then != nil && !slices.ContainsFunc(w.then, w.c.Want.Then.has) {
		return fmt.Sprintf("in the tunnel %v, want %v", w.then, w.c.Want.Then)
	}
	if w.c.Want.TLSPeer != "" && w.tlsPeer != w.c.Want.TLSPeer {
		return fmt.Sprintf("TLS ended by %q, want %q", w.tlsPeer, w.c.Want.TLSPeer)
	}
	return ""
}

func (w *wireRun) checkCalls() string {
	want := w.c.Want
	if q := w.b.resolver.queries(); want.DNSQueried != nil && (q > 0) != *want.DNSQueried {
		return fmt.Sprintf("%d DNS queries, want queried %t", q, *want.DNSQueried)
	}
	if calls := w.b.control.calls(); want.ControlCalled != nil && (len(calls) > 0) != *want.ControlCalled {
		return fmt.Sprintf("control plane calls %v, want called %t", calls, *want.ControlCalled)
	}
	return ""
}

func (w *wireRun) checkUpstream() string {
	want, u := w.c.Want, w.b.upstream
	u.mu.Lock()
	defer u.mu.Unlock()
	var dialed []string
	for _, a := range u.dialed {
		if !slices.Contains(dialed, a.String()) {
			dialed = append(dialed, a.String())
		}
	}
	slices.Sort(dialed)
	slices.Sort(want.Dialed)
	switch {
	case want.UpstreamDialed != nil && (len(dialed) > 0) != *want.UpstreamDialed:
		return fmt.Sprintf("dialed %v, want dialed %t", dialed, *want.UpstreamDialed)
	case want.Dialed != nil && !slices.Equal(dialed, want.Dialed):
		return fmt.Sprintf("dialed %v, want %v", dialed, want.Dialed)
	case want.UpstreamReqs != nil && len(u.requests) != *want.UpstreamReqs:
		return fmt.Sprintf("upstream read %d requests, want %d", len(u.requests), *want.UpstreamReqs)
	}
	return w.checkSeen(u.requests)
}

func (w *wireRun) checkSeen(requests []seenRequest) string {
	want := w.c.Want
	for name, value := range want.UpstreamHeader {
		if value == nil {
			for _, r := range requests {
				if len(r.values(name)) > 0 {
					return fmt.Sprintf("upstream saw %s: %q", name, r.values(name))
				}
			}
			continue
		}
		if len(requests) == 0 || !slices.Equal(requests[0].values(name), []string{*value}) {
			return fmt.Sprintf("upstream saw %v, want %s: %q", requests, name, *value)
		}
	}
	if want.UpstreamLine == "" && want.UpstreamBody == nil && want.UpstreamTrailer == nil {
		return ""
	}
	if len(requests) == 0 {
		return "upstream saw no request"
	}
	r := requests[0]
	if want.UpstreamLine != "" && r.line != want.UpstreamLine {
		return fmt.Sprintf("upstream saw %q, want %q", r.line, want.UpstreamLine)
	}
	if want.UpstreamBody != nil && !bytes.Equal(r.body, *want.UpstreamBody) {
		return fmt.Sprintf("upstream saw body %q, want %q", r.body, *want.UpstreamBody)
	}
	for name := range want.UpstreamTrailer {
		if _, there := r.trailer[http.CanonicalHeaderKey(name)]; there {
			return "upstream saw trailer " + name
		}
	}
	return ""
}

func (w *wireRun) checkRecords() string {
	want := w.c.Want
	got := w.b.records.verdicts()
	var sources []string
	for _, d := range got {
		sources = append(sources, d.RuleSource)
	}
	if want.Sources != nil && !slices.Equal(sources, want.Sources) {
		return fmt.Sprintf("sources %v, want %v", sources, want.Sources)
	}
	if len(got) == 0 {
		if want.Decision != "" {
			return "no record"
		}
		return ""
	}
	last := got[len(got)-1]
	if want.Decision == "" {
		if want.Sources == nil && last.Decision != egress.Deny {
			return fmt.Sprintf("last record %s %s, want a deny or none", last.Decision, last.RuleSource)
		}
		return ""
	}
	if string(last.Decision) != want.Decision || want.Source != nil && !want.Source.has(last.RuleSource) {
		return fmt.Sprintf("last record %s %s, want %s %v", last.Decision, last.RuleSource, want.Decision, want.Source)
	}
	return ""
}
