package types

import (
	"encoding/json"
	"slices"
)

// RunPolicySpec is the policy of one run, as the egress proxy enforces it and
// the scheduler respects it. JSON keys are part of the sidecar's wire format.
type RunPolicySpec struct {
	// AllowedDomains lists the hosts that may be reached; an empty list allows nothing.
	AllowedDomains []string `json:"allowed_domains"`
	// DeniedDomains wins over every allow, approval and allow-all.
	DeniedDomains []string `json:"denied_domains,omitempty"`
	// AllowAllEgress turns a miss into an allow. Deny list, address guard and
	// method list still hold; injection still needs an exact allow entry.
	AllowAllEgress bool `json:"allow_all_egress,omitempty"`
	// FirstUseApproval says what a miss does.
	FirstUseApproval FirstUseMode `json:"first_use_approval"`
	// AllowedMethods narrows HTTP methods; empty means all. A TLS tunnel is CONNECT.
	AllowedMethods []string `json:"allowed_methods,omitempty"`
	// MinConfinementClass is the scheduling floor.
	MinConfinementClass ConfinementClass `json:"min_confinement_class"`
	// EligibleGrants lists credentials the run may ask for.
	EligibleGrants []GrantSpec `json:"eligible_grants,omitempty"`
	// AutoStopAfterSec stops an idle run; 0 is the platform default, negative never.
	AutoStopAfterSec int `json:"auto_stop_after_sec,omitempty"`
	// WorkspaceMounts are host folders bound into the sandbox.
	WorkspaceMounts []WorkspaceMount `json:"workspace_mounts,omitempty"`
	// WorkspaceRepos are cloned, not bound.
	WorkspaceRepos []WorkspaceRepo `json:"workspace_repos,omitempty"`
	// LLMInspection configures scanning of model traffic.
	LLMInspection *LLMInspectionSpec `json:"llm_inspection,omitempty"`
	// Resources are the policy's hard caps.
	Resources *ResourceLimits `json:"resources,omitempty"`
}

// GrantSpec is one credential a run may ask for.
type GrantSpec struct {
	Kind             string          `json:"kind"` // github_token, cloud_sts, api_key, git_pat, ssh_key
	Scope            json.RawMessage `json:"scope,omitempty"`
	TTLSeconds       int             `json:"ttl_seconds"` // default and maximum 3600
	RequiresApproval bool            `json:"requires_approval"`
}

// WorkspaceMount is a host folder bound into the sandbox. A nil ReadOnly means true.
type WorkspaceMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly *bool  `json:"read_only,omitempty"`
}

// WorkspaceRepo is a repository cloned to Target.
type WorkspaceRepo struct {
	Repo   string `json:"repo"`
	Target string `json:"target"`
}

// ResourceLimits are hard caps; zero and negative values mean the platform default.
type ResourceLimits struct {
	CPUMillis int `json:"cpu_millis,omitempty"`
	MemoryMiB int `json:"memory_mib,omitempty"`
	PidsLimit int `json:"pids_limit,omitempty"`
	DiskMiB   int `json:"disk_mib,omitempty"`
}

// LLMInspectionSpec configures scanning of model traffic.
type LLMInspectionSpec struct {
	Mode                  string   `json:"mode"` // off, alert, block
	WorkspaceSecretValues []string `json:"workspace_secret_values,omitempty"`
	DetectSecrets         bool     `json:"detect_secrets,omitempty"`
	DetectSecretPatterns  bool     `json:"detect_secret_patterns,omitempty"`
	DetectEntropy         bool     `json:"detect_entropy,omitempty"`
	DetectPII             bool     `json:"detect_pii,omitempty"`
	DetectorSidecarURL    string   `json:"detector_sidecar_url,omitempty"`
	ClassifiedMarkers     []string `json:"classified_markers,omitempty"`
	ScanAttachments       bool     `json:"scan_attachments,omitempty"`
	InspectForwardEgress  bool     `json:"inspect_forward_egress,omitempty"`
	MaxScanBytes          int      `json:"max_scan_bytes,omitempty"` // per span, default 1 MiB
	OnScannerError        string   `json:"on_scanner_error,omitempty"`
	RequireInspectableLLM bool     `json:"require_inspectable_llm,omitempty"`
	InterceptTLS          bool     `json:"intercept_tls,omitempty"`
	BlockMinSeverity      string   `json:"block_min_severity,omitempty"`
}

// Clone returns a deep copy: nothing of it is shared with s, so that one run's
// policy can never grow another's.
func (s RunPolicySpec) Clone() RunPolicySpec {
	c := s
	c.AllowedDomains = slices.Clone(s.AllowedDomains)
	c.DeniedDomains = slices.Clone(s.DeniedDomains)
	c.AllowedMethods = slices.Clone(s.AllowedMethods)
	c.EligibleGrants = slices.Clone(s.EligibleGrants)
	for i := range c.EligibleGrants {
		c.EligibleGrants[i].Scope = slices.Clone(c.EligibleGrants[i].Scope)
	}
	c.WorkspaceMounts = slices.Clone(s.WorkspaceMounts)
	for i, m := range c.WorkspaceMounts {
		if m.ReadOnly != nil {
			ro := *m.ReadOnly
			c.WorkspaceMounts[i].ReadOnly = &ro
		}
	}
	c.WorkspaceRepos = slices.Clone(s.WorkspaceRepos)
	if s.LLMInspection != nil {
		l := *s.LLMInspection
		l.WorkspaceSecretValues = slices.Clone(l.WorkspaceSecretValues)
		l.ClassifiedMarkers = slices.Clone(l.ClassifiedMarkers)
		c.LLMInspection = &l
	}
	if s.Resources != nil {
		r := *s.Resources
		c.Resources = &r
	}
	return c
}
