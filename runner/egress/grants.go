package egress

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// InjectionRule says where a credential goes. It never holds the value.
type InjectionRule struct {
	Host       string `json:"host"`
	Header     string `json:"header"`
	SecretName string `json:"secret_name"`
	// Format is a template with one placeholder for the secret, such as "Bearer {secret}".
	Format string `json:"format"`
}

// ResolvedInjection is the control plane's answer for a grant: the finished
// header value. ExpiresAt is in Unix milliseconds; 0 means it does not expire.
type ResolvedInjection struct {
	Host      string `json:"host"`
	Header    string `json:"header"`
	Value     string `json:"value"`
	JTI       string `json:"jti"`
	ExpiresAt int64  `json:"expires_at"`
}

// ApprovalState is where a request for approval stands.
type ApprovalState string

// Only a pending request can still change; an expired one had no answer in time.
const (
	ApprovalPending  ApprovalState = "PENDING"
	ApprovalApproved ApprovalState = "APPROVED"
	ApprovalDenied   ApprovalState = "DENIED"
	ApprovalExpired  ApprovalState = "EXPIRED"
)

// ApprovalRequest is one request for approval and what became of it.
type ApprovalRequest struct {
	ID             uuid.UUID       `json:"id"`
	RunID          uuid.UUID       `json:"run_id"`
	GrantID        *uuid.UUID      `json:"grant_id,omitempty"`
	Kind           string          `json:"kind"` // egress_domain, credential, tool_call, credential_reauth
	RequestedScope json.RawMessage `json:"requested_scope,omitempty"`
	State          ApprovalState   `json:"state"`
	RequestedAt    time.Time       `json:"requested_at"`
	DecidedAt      *time.Time      `json:"decided_at,omitempty"`
	DecidedBy      string          `json:"decided_by,omitempty"`
	MintedJTI      string          `json:"minted_jti,omitempty"`
	Reason         string          `json:"reason,omitempty"`
}

// ApprovalScope is the requested scope of an egress_domain approval.
type ApprovalScope struct {
	Host string             `json:"host"`
	Port int                `json:"port"`
	Mode types.FirstUseMode `json:"mode"`
}

// MintRequest asks the control plane to mint a grant's credential.
type MintRequest struct {
	GrantID uuid.UUID `json:"grant_id"`
}

// MintedCredential is the answer to a MintRequest. ExpiresAt is in Unix
// milliseconds; 0 means it does not expire.
type MintedCredential struct {
	Token     string `json:"token"`
	ExpiresAt int64  `json:"expires_at,omitempty"`
	JTI       string `json:"jti,omitempty"`
}
