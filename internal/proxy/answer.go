package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// retryAfter is what a pending answer asks a client to wait, in seconds.
const retryAfter = 5

// statusOf is the status that a refusal is answered with.
func statusOf(source string) int {
	switch source {
	case policy.BadRequest, policy.BadHost:
		return http.StatusBadRequest
	case policy.AuthorityMismatch:
		return http.StatusMisdirectedRequest
	case policy.ResolveFailed, policy.DialFailed, policy.UpstreamTLS, policy.UpstreamProxy:
		return http.StatusBadGateway
	case policy.Limit:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

// statusFor is the status that a ruling is answered with.
func statusFor(r policy.Ruling) int {
	if r.Status != 0 {
		return r.Status
	}
	return statusOf(r.Source)
}

// kindOf is the word for a refusal in the X-Wardyn-Egress header.
func kindOf(r policy.Ruling) string {
	switch {
	case r.Decision == egress.Pending:
		return "approval-pending"
	case r.Source == policy.BadRequest || r.Source == policy.BadHost:
		return "bad-request"
	case r.Source == policy.AuthorityMismatch:
		return "authority-mismatch"
	case r.Source == policy.Limit:
		return "limit"
	case statusOf(r.Source) == http.StatusBadGateway:
		return "upstream-error"
	}
	return "denied"
}

// proxyError is the error word of RFC 9209 for a refusal.
func proxyError(r policy.Ruling) string {
	switch r.Source {
	case policy.PrivateIP:
		return "destination_ip_prohibited"
	case policy.ResolveFailed:
		return "dns_error"
	case policy.DialFailed:
		return "destination_unavailable"
	case policy.UpstreamTLS:
		return "tls_certificate_error"
	case policy.BadRequest, policy.BadHost, policy.AuthorityMismatch:
		return "http_request_error"
	case policy.Limit:
		return "connection_limit_reached"
	}
	return "http_request_denied"
}

// answerBody is the JSON body of a refusal.
type answerBody struct {
	Wardyn     string     `json:"wardyn"`
	Code       string     `json:"code"`
	Host       string     `json:"host"`
	Port       int        `json:"port"`
	Method     string     `json:"method"`
	Rule       *string    `json:"rule"`
	Cause      string     `json:"cause,omitempty"`
	ApprovalID *uuid.UUID `json:"approval_id"`
	RetryAfter *int       `json:"retry_after_s"`
	Hint       string     `json:"hint,omitempty"`
	DecisionID string     `json:"decision_id"`
}

// refusalAnswer builds the answer to a refused request: the reason phrase for
// those who see nothing else, the body for those who read it.
func refusalAnswer(f *flow, r policy.Ruling, status int, keep bool) []byte {
	fields, body := refusalParts(f, r, status)
	reason := http.StatusText(status)
	if f.ask.method == http.MethodConnect {
		reason = connectReason(f, r)
	}
	return wholeAnswer(status, reason, fields, body, f.ask.method == http.MethodHead, keep)
}

// refusalParts are the header fields and the body of a refusal.
func refusalParts(f *flow, r policy.Ruling, status int) (h1.Fields, []byte) {
	body := answerBody{
		Wardyn: kindOf(r), Code: r.Source, Host: printable(f.ask.host), Port: max(f.ask.port, 0), Method: printable(f.ask.method),
		Cause: r.Cause, ApprovalID: r.Approval, Hint: r.Hint, DecisionID: f.detail.FlowID,
	}
	if r.Rule != "" {
		body.Rule = &r.Rule
	}
	fields := h1.Fields{{Name: "X-Wardyn-Egress", Value: body.Wardyn}, {Name: "Proxy-Status", Value: "wardyn; error=" + proxyError(r)}}
	if r.Decision == egress.Pending || r.Source == policy.Limit {
		wait := retryAfter
		body.RetryAfter = &wait
		fields = append(fields, h1.Field{Name: "Retry-After", Value: strconv.Itoa(wait)})
	}
	return jsonParts(fields, body)
}

// connectReason is the reason phrase of a refused CONNECT: most clients show
// that and nothing else.
func connectReason(f *flow, r policy.Ruling) string {
	target := printable(f.ask.host) + ":" + strconv.Itoa(max(f.ask.port, 0))
	if len(target) > 280 {
		target = target[:280] + "..."
	}
	if r.Decision == egress.Pending {
		id := "not raised"
		if r.Approval != nil {
			id = r.Approval.String()
		}
		return "egress pending: " + target + " approval " + id
	}
	return "egress denied: " + target + " " + r.Source
}

// jsonAnswer builds a whole answer with a JSON body.
func jsonAnswer(status int, reason string, extra h1.Fields, v any, headOnly, keep bool) []byte {
	fields, body := jsonParts(extra, v)
	return wholeAnswer(status, reason, fields, body, headOnly, keep)
}

// jsonParts encodes a body and the fields that describe it.
func jsonParts(extra h1.Fields, v any) (h1.Fields, []byte) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(`{}`)
	}
	b = append(b, '\n')
	return append(h1.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Content-Length", Value: strconv.Itoa(len(b))},
		{Name: "Cache-Control", Value: "no-store"}}, extra...), b
}

func wholeAnswer(status int, reason string, fields h1.Fields, body []byte, headOnly, keep bool) []byte {
	if !keep {
		fields = append(fields, h1.Field{Name: "Connection", Value: "close"})
	}
	out := h1.AppendFields(h1.AppendStatus(make([]byte, 0, 512+len(body)), status, reason), fields)
	if headOnly {
		return out
	}
	return append(out, body...)
}
