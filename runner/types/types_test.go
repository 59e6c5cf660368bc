package types

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// T1, T2: three classes in their order; every other spelling satisfies nothing.
func TestT2Rank(t *testing.T) {
	for i, c := range Classes() {
		if c.Rank() != i+1 || string(c) != "CC"+string(rune('1'+i)) {
			t.Errorf("class %d is %q of rank %d", i, c, c.Rank())
		}
	}
	for _, c := range []ConfinementClass{"", "cc1", "CC1 ", "CC0", "CC4", "Fence"} {
		if c.Rank() != 0 {
			t.Errorf("%q has rank %d", c, c.Rank())
		}
	}
}

// T5, T6: the states of a run, and which of them end it.
func TestT6Terminal(t *testing.T) {
	ends := map[RunState]bool{
		"PENDING": false, "STARTING": false, "RUNNING": false, "WAITING_FOR_CONFIRMATION": false,
		"STOPPED": true, "ARCHIVED": true, "FAILED": true, "KILLED": true, "COMPLETED": true,
	}
	all := []RunState{StatePending, StateStarting, StateRunning, StateWaiting, StateStopped, StateArchived, StateFailed, StateKilled, StateCompleted}
	for _, s := range all {
		want, known := ends[s]
		if !known || s.Terminal() != want {
			t.Errorf("%q: known %v, terminal %v", s, known, s.Terminal())
		}
	}
	if len(all) != len(ends) || RunState("stopped").Terminal() {
		t.Errorf("%d states; another spelling ends a run: %v", len(all), RunState("stopped").Terminal())
	}
}

// T8, T10: what is enforced, and what asks somebody.
func TestT8FirstUse(t *testing.T) {
	for m, want := range map[FirstUseMode]struct {
		enforced FirstUseMode
		asks     bool
	}{
		"always_deny": {AlwaysDeny, false}, "deny_with_review": {DenyWithReview, true}, "wait_for_review": {WaitForReview, true},
		"": {AlwaysDeny, false}, "Deny_With_Review": {AlwaysDeny, false}, "allow": {AlwaysDeny, false},
	} {
		if m.Normalize() != want.enforced || m.RaisesApproval() != want.asks {
			t.Errorf("%q: enforced %q, asks %v", m, m.Normalize(), m.RaisesApproval())
		}
	}
}

// T9: the legacy boolean; a word that means nothing is kept, so that it can be
// refused by name.
func TestT9FirstUseJSON(t *testing.T) {
	for text, want := range map[string]FirstUseMode{
		`"wait_for_review"`: WaitForReview, `true`: DenyWithReview, ` false `: AlwaysDeny, `null`: AlwaysDeny, `"maybe"`: "maybe", `""`: "",
	} {
		var p RunPolicySpec
		if err := json.Unmarshal([]byte(`{"first_use_approval":`+text+`}`), &p); err != nil || p.FirstUseApproval != want {
			t.Errorf("%s: %q, %v", text, p.FirstUseApproval, err)
		}
	}
	for _, text := range []string{`1`, `{}`, `["always_deny"]`} {
		var p RunPolicySpec
		if err := json.Unmarshal([]byte(`{"first_use_approval":`+text+`}`), &p); err == nil {
			t.Errorf("%s is taken as %q", text, p.FirstUseApproval)
		}
	}
}

// T11, T12, T13, T14, T16: the keys of a policy. Three are always there.
func TestT11PolicyKeys(t *testing.T) {
	b, err := json.Marshal(RunPolicySpec{})
	if want := `{"allowed_domains":null,"first_use_approval":"","min_confinement_class":""}`; err != nil || string(b) != want {
		t.Errorf("empty: %s, %v", b, err)
	}
	ro := false
	full := RunPolicySpec{
		AllowedDomains: []string{"a"}, DeniedDomains: []string{"b"}, AllowAllEgress: true, AllowedMethods: []string{"GET"},
		EligibleGrants: []GrantSpec{{Scope: json.RawMessage(`{}`)}}, AutoStopAfterSec: -1, WorkspaceMounts: []WorkspaceMount{{ReadOnly: &ro}},
		WorkspaceRepos: []WorkspaceRepo{{}}, Resources: &ResourceLimits{CPUMillis: 1, MemoryMiB: 1, PidsLimit: 1, DiskMiB: 1},
		LLMInspection: &LLMInspectionSpec{
			WorkspaceSecretValues: []string{"s"}, DetectSecrets: true, DetectSecretPatterns: true, DetectEntropy: true, DetectPII: true,
			DetectorSidecarURL: "u", ClassifiedMarkers: []string{"m"}, ScanAttachments: true, InspectForwardEgress: true, MaxScanBytes: 1,
			OnScannerError: "pass", RequireInspectableLLM: true, InterceptTLS: true, BlockMinSeverity: "low",
		},
	}
	if b, err = json.Marshal(full); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	first := func(key string) map[string]any { return got[key].([]any)[0].(map[string]any) }
	for what, c := range map[string]struct {
		of   map[string]any
		keys []string
	}{
		"policy": {got, []string{"allow_all_egress", "allowed_domains", "allowed_methods", "auto_stop_after_sec", "denied_domains", "eligible_grants",
			"first_use_approval", "llm_inspection", "min_confinement_class", "resources", "workspace_mounts", "workspace_repos"}},
		"grant": {first("eligible_grants"), []string{"kind", "requires_approval", "scope", "ttl_seconds"}},
		"mount": {first("workspace_mounts"), []string{"read_only", "source", "target"}},
		"repo":  {first("workspace_repos"), []string{"repo", "target"}},
		"caps":  {got["resources"].(map[string]any), []string{"cpu_millis", "disk_mib", "memory_mib", "pids_limit"}},
		"inspection": {got["llm_inspection"].(map[string]any), []string{"block_min_severity", "classified_markers", "detect_entropy", "detect_pii",
			"detect_secret_patterns", "detect_secrets", "detector_sidecar_url", "inspect_forward_egress", "intercept_tls", "max_scan_bytes", "mode",
			"on_scanner_error", "require_inspectable_llm", "scan_attachments", "workspace_secret_values"}},
	} {
		if keys := slices.Sorted(maps.Keys(c.of)); !slices.Equal(keys, c.keys) {
			t.Errorf("%s: %q", what, keys)
		}
	}
	if b, _ := json.Marshal(LLMInspectionSpec{}); string(b) != `{"mode":""}` {
		t.Errorf("empty inspection: %s", b)
	}
}

// T15, B1: a copy shares nothing with what it was made of.
func TestT15Clone(t *testing.T) {
	ro := true
	p := RunPolicySpec{
		AllowedDomains: []string{"a"}, DeniedDomains: []string{"b"}, AllowedMethods: []string{"GET"},
		EligibleGrants: []GrantSpec{{Scope: json.RawMessage(`1`)}}, WorkspaceMounts: []WorkspaceMount{{ReadOnly: &ro}},
		WorkspaceRepos: []WorkspaceRepo{{Repo: "r"}}, Resources: &ResourceLimits{CPUMillis: 1},
		LLMInspection: &LLMInspectionSpec{WorkspaceSecretValues: []string{"s"}, ClassifiedMarkers: []string{"m"}},
	}
	before, _ := json.Marshal(p)
	c := p.Clone()
	if same, _ := json.Marshal(c); string(same) != string(before) {
		t.Errorf("copied as %s", same)
	}
	c.AllowedDomains[0], c.DeniedDomains[0], c.AllowedMethods[0] = "x", "x", "x"
	c.EligibleGrants[0].Scope[0], *c.WorkspaceMounts[0].ReadOnly, c.WorkspaceRepos[0].Repo = '2', false, "x"
	c.Resources.CPUMillis, c.LLMInspection.WorkspaceSecretValues[0], c.LLMInspection.ClassifiedMarkers[0] = 2, "x", "x"
	if after, _ := json.Marshal(p); string(after) != string(before) {
		t.Errorf("the original became %s", after)
	}
}
