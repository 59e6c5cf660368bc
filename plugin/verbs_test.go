package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// ask runs a wardyn verb.
func (b *bench) ask(id string, words ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	var out, errs bytes.Buffer
	r, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{
		TaskID: id, Command: append([]string{"wardyn"}, words...), Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String(), errs.String(), r.ExitCode
}

// askedVerb is what is said to the driver in an exec, and its answer: the parts of
// its output, and of what it complains of.
type askedVerb struct {
	words  string
	code   int
	stdout []string
	stderr string
}

// askedVerbs are for the task of TestD8Verbs, in this order.
func askedVerbs(ref string) []askedVerb {
	return []askedVerb{
		{"", 0, []string{"status", "decisions", "explain"}, ""},
		{"help", 0, []string{"status"}, ""},
		{"status", 0, []string{ref, "running", "CC2", "api.example.com, *.pkg.example.org:443", "no.pkg.example.org", "0 allowed, 0 denied"}, ""},
		{"decisions", 0, []string{"deny", "evil.example:443", "policy:default-deny", `\x1b[31mred\u202e`}, ""},
		{"decisions -n 5 -json", 0, []string{`"host": "evil.example"`, `"code": "policy:default-deny"`, `\u001b[31mred\u202e`}, ""},
		{"explain api.example.com", 0, []string{"allow api.example.com:443: the job allows api.example.com"}, ""},
		{"explain a.pkg.example.org", 0, []string{"allow"}, ""},
		{"explain a.pkg.example.org:80", 0, []string{"deny", "does not list", "egress.allow"}, ""},
		{"explain no.pkg.example.org", 0, []string{"deny", "egress.deny"}, ""},
		{"explain x.bad.example", 0, []string{"deny", "deny_domains"}, ""},
		{"explain other.example -json", 0, []string{`"verdict": "deny"`}, ""},
		{"explain", 0, []string{"the strongest that works", "*.bad.example", "operator: plugin option deny_domains", "/alloc"}, ""},
		{"explain -json", 0, []string{`"section": "sandbox"`, `"by": "author"`}, ""},
		{"explain 169.254.169.254", 0, []string{"deny 169.254.169.254:443: it is refused, since", "no setting opens it"}, ""},
		{"explain 10.1.2.3:80", 0, []string{"deny 10.1.2.3:80: it is refused, since", "private_hosts"}, ""},
		{"explain localhost", 0, []string{"deny localhost:443: it is the sandbox itself"}, ""},
		{"explain 8.8.8.8", 0, []string{"deny 8.8.8.8:443: the job does not list it"}, ""},
		{"explain a b", 2, nil, "at most one HOST"},
		{"explain http://x", 2, nil, "port"},
		{"decisions -n x", 2, nil, "positive number"},
		{"status -bogus", 2, nil, "unknown flag"},
		{"nosuch", 2, nil, "no verb"},
		{"pending", 0, []string{"nothing waits"}, ""},
		{"pending -json", 0, []string{"[]"}, ""},
		{"approve abcd", 1, nil, "decided on the node, with nomad-driver-wardyn ctl"},
		{"deny", 2, nil, "want one approval"},
		{"suspend", 0, []string{"suspended"}, ""},
		{"status", 0, []string{"suspended"}, ""},
		{"snapshot", 2, nil, "snapshot NAME"},
		{"snapshot Up/Down", 2, nil, "snapshot NAME"},
		{"snapshot mine", 0, []string{"wardyn-snap/default/mine"}, ""},
		{"resume", 0, []string{"running"}, ""},
		{"recording", 0, []string{"nothing is recorded"}, ""},
		{"recording list -json", 0, []string{"[]"}, ""},
		{"recording cat", 1, nil, "no recording main"},
		{"recording drop x", 2, nil, "want list, cat"},
	}
}

// TestD8Verbs: each verb is answered on the host side, with its exit code.
func TestD8Verbs(t *testing.T) {
	b := newBench(t, benchOptions{config: map[string]any{"deny_domains": []any{"*.bad.example"}}})
	c := args("idle")
	c["egress"] = []any{map[string]any{"allow": []any{"api.example.com", "*.pkg.example.org:443"}, "deny": []any{"no.pkg.example.org"}}}
	tc, _ := b.start("web", c)
	for flag, want := range map[string]string{"": "the task has made no request yet\n", "-json": "[]\n"} {
		if out, _, code := b.ask(tc.ID, "decisions", flag); out != want || code != 0 {
			t.Errorf("no decisions, %q: exit code %d, %q", flag, code, out)
		}
	}
	plantDecision(t, tc)
	for _, c := range askedVerbs(refOf(tc)) {
		b.answers(tc.ID, c)
	}
	out, _, _ := b.ask(tc.ID, "status", "-json")
	var v statusView
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Sandbox != refOf(tc) || v.State != "running" {
		t.Errorf("status -json: %+v, %v", v, err)
	}
	if slices.Contains(b.ops(refOf(tc)), "ExecStream") {
		t.Error("a verb was run in the sandbox")
	}
	b.fake.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	if out, _, _ := b.ask(tc.ID, "status"); !strings.Contains(out, "unknown") {
		t.Errorf("I8: an engine that cannot be asked: %s", out)
	}
	b.fake.SetFault(nil)
	b.destroy(tc.ID)
}

// plantDecision records a refusal whose cause would act on a terminal.
func plantDecision(t *testing.T, tc host.TaskConfig) {
	t.Helper()
	record, err := json.Marshal(control.Record{
		V: 1, Seq: 1, RunID: RunID(TaskID(tc.ID)), Time: time.Unix(0, 0), Kind: "decision", Decision: egress.Deny,
		Host: "evil.example", Port: 443, Method: "CONNECT", Code: "policy:default-deny", Cause: "\x1b[31mred\u202e",
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(tc.AllocDir, "web/wardyn/decisions.jsonl"), append(record, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answers makes a call and looks at what comes of it.
func (b *bench) answers(id string, c askedVerb) {
	b.t.Helper()
	out, errs, code := b.ask(id, strings.Fields(c.words)...)
	if code != c.code || !strings.Contains(errs, c.stderr) || c.stderr == "" && errs != "" {
		b.t.Errorf("%q: code %d, stderr %q", c.words, code, errs)
	}
	for _, s := range c.stdout {
		if !strings.Contains(out, s) {
			b.t.Errorf("%q: %q is not in\n%s", c.words, s, out)
		}
	}
	if strings.ContainsAny(out, "\x1b\u202e") {
		b.t.Errorf("%q: raw control characters in %q", c.words, out)
	}
}

func TestExplainCeiling(t *testing.T) {
	a, err := egress.ParseAuthority("x.example", 443)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(to egress.ApprovalState, port int, revoked bool) control.Approval {
		return control.Approval{Host: "x.example", Port: port, State: to, DecidedBy: "root on the node", Revoked: revoked}
	}
	review := state{FirstUse: string(types.DenyWithReview)}
	for _, c := range []struct {
		s       state
		h       HostConfig
		want    egress.Decision
		word    string
		decided []control.Approval
	}{
		{s: review, want: egress.Pending, word: "is put to a reviewer", decided: []control.Approval{asked(egress.ApprovalApproved, 80, false)}},
		{s: review, want: egress.Pending, word: "waits for", decided: []control.Approval{asked(egress.ApprovalPending, 443, false)}},
		{s: review, want: egress.Allow, word: "approved, by root", decided: []control.Approval{asked(egress.ApprovalApproved, 443, false)}},
		{s: review, want: egress.Deny, word: "denied, by root", decided: []control.Approval{asked(egress.ApprovalDenied, 443, false)}},
		{s: review, want: egress.Deny, word: "taken back", decided: []control.Approval{asked(egress.ApprovalDenied, 443, true)}},
		{s: review, want: egress.Pending, word: "is put to a reviewer", decided: []control.Approval{asked(egress.ApprovalExpired, 443, false)}},
		{s: review, want: egress.Pending, word: "waits for", decided: []control.Approval{asked(egress.ApprovalExpired, 443, false), asked(egress.ApprovalPending, 443, false)}},
		{s: review, h: HostConfig{DenyDomains: []string{"*.example"}}, want: egress.Deny, word: "operator", decided: []control.Approval{asked(egress.ApprovalApproved, 443, false)}},
		{s: state{AllowAll: true}, want: egress.Allow, word: "everything"},
		{s: state{AllowAll: true}, h: HostConfig{AllowDomains: []string{"*.other.example"}}, want: egress.Deny, word: "ceiling"},
		{s: state{Allow: []string{"x.example"}, Methods: []string{"GET"}}, h: HostConfig{AllowDomains: []string{"*.example"}}, want: egress.Allow, word: "plain HTTP"},
		{s: state{Allow: []string{"x.example"}}, h: HostConfig{DenyDomains: []string{"*.example"}}, want: egress.Deny, word: "operator"},
	} {
		if got := explain(c.s, c.h, c.decided, a); got.Verdict != c.want || !strings.Contains(got.Reason, c.word) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	open := []control.Approval{asked(egress.ApprovalPending, 443, false)}
	for mode, way := range map[ApprovalMode]string{
		ApprovalsNode: "nomad-driver-wardyn ctl approve 00000000", ApprovalsExec: "wardyn approve 00000000, or", ApprovalsExternal: "the control plane knows it",
	} {
		h := HostConfig{}
		h.Approvals = mode
		if got := explain(review, h, open, a); !strings.Contains(got.Change, way) {
			t.Errorf("approvals %s: %q", mode, got.Change)
		}
	}
}

// TestD8ExplainAfterAnAgentRestart: a client keeps no config of a task, so what
// holds for it is told as it was at the start.
func TestD8ExplainAfterAnAgentRestart(t *testing.T) {
	b := newBench(t, benchOptions{})
	c := args("idle")
	c["egress"], c["pids_limit"] = []any{map[string]any{"allow": []any{"api.example.com"}}}, 77
	tc := b.task("web", c)
	run := filepath.Join(b.stage, "..", RunID(TaskID(tc.ID)).String())
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	h, _, err := b.host.StartTask(b.ctx(), tc)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := b.ask(tc.ID, "explain")
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h.Persisted()); err != nil {
		t.Fatal(err)
	}
	if after, errs, code := b.ask(tc.ID, "explain"); code != 0 || after != before || !strings.Contains(after, "77") {
		t.Errorf("exit code %d, %s\nbefore:\n%s\nafter:\n%s", code, errs, before, after)
	}
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := b.ask(tc.ID, "explain"); code != 1 || !strings.Contains(errs, "nomad-driver-wardyn explain JOB") {
		t.Errorf("nothing is known any more: exit code %d, %s", code, errs)
	}
	b.destroy(tc.ID)
}
