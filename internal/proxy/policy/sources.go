package policy

// Rule sources: who or what decided. They are part of the record's format.
const (
	Allowed             = "policy:allowed"
	Denied              = "policy:denied"
	DefaultDeny         = "policy:default-deny"
	Method              = "policy:method"
	Invalid             = "policy:invalid"
	EvaluatorError      = "policy:evaluator-error"
	ApprovalPending     = "approval:pending"
	ApprovalDenied      = "approval:denied"
	ApprovalExpired     = "approval:expired"
	BadRequest          = "builtin:bad-request"
	BadHost             = "builtin:bad-host"
	PrivateIP           = "builtin:private-ip"
	ResolveFailed       = "builtin:resolve-failed"
	DialFailed          = "builtin:dial-failed"
	SNIMismatch         = "builtin:sni-mismatch"
	NotTLS              = "builtin:not-tls"
	ECH                 = "builtin:ech"
	AuthorityMismatch   = "builtin:authority-mismatch"
	CleartextCredential = "builtin:cleartext-credential"
	UpstreamTLS         = "builtin:upstream-tls"
	UpstreamProxy       = "builtin:upstream-proxy"
	Inbound             = "policy:port"
	Limit               = "builtin:limit"
	Revoked             = "builtin:revoked"
)
