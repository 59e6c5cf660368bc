package egress

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
)

// T24 to T28, T31, T32: the shapes that sidecar and control plane exchange. A
// request marshals under its Go names, and what is empty is left out.
func TestT26WireShapes(t *testing.T) {
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const run = `"11111111-2222-4333-8444-555555555555"`
	for want, v := range map[string]any{
		`["allow","deny","pending"]`: []Decision{Allow, Deny, Pending},
		`{"request":{"RunID":` + run + `,"Host":"h","Port":443,"Method":"GET","Path":"/p","Time":"2026-01-02T03:04:05Z"},"decision":"deny","rule_source":"policy:denied"}`: DecisionLog{
			Request: Request{RunID: id, Host: "h", Port: 443, Method: "GET", Path: "/p", Time: at}, Decision: Deny, RuleSource: "policy:denied"},
		`{"request":{"RunID":` + run + `,"Host":"","Port":0,"Method":"","Path":"","Time":"0001-01-01T00:00:00Z"},"decision":"pending","rule_source":"","approval_id":` + run + `,"scan":{"scanned":false},"cause":"c","via":"direct"}`: DecisionLog{
			Request: Request{RunID: id}, Decision: Pending, ApprovalID: &id, Scan: &ScanSummary{}, Cause: "c", Via: "direct"},
		`{"detector":"","category":"","field_path":"","offset":0,"length":0,"severity":"","sample":""}`: ScanFinding{},
		`{"host":"h","header":"x","secret_name":"s","format":"Bearer {secret}"}`:                        InjectionRule{"h", "x", "s", "Bearer {secret}"},
		`{"host":"h","header":"x","value":"v","jti":"j","expires_at":0}`:                                ResolvedInjection{"h", "x", "v", "j", 0},
		`["PENDING","APPROVED","DENIED","EXPIRED"]`:                                                     []ApprovalState{ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired},
		`{"id":` + run + `,"run_id":` + run + `,"grant_id":` + run + `,"kind":"egress_domain","requested_scope":{},"state":"APPROVED","requested_at":"2026-01-02T03:04:05Z","decided_at":"2026-01-02T03:04:05Z","decided_by":"b","minted_jti":"j","reason":"r"}`: ApprovalRequest{
			ID: id, RunID: id, GrantID: &id, Kind: "egress_domain", RequestedScope: json.RawMessage(`{}`), State: ApprovalApproved, RequestedAt: at, DecidedAt: &at, DecidedBy: "b", MintedJTI: "j", Reason: "r"},
	} {
		if b, err := json.Marshal(v); err != nil || string(b) != want {
			t.Errorf("%T: %s, %v; want %s", v, b, err, want)
		}
	}
}
