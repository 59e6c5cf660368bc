package types

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// FirstUseMode says what happens when a sandbox first asks for a host its
// policy does not list.
type FirstUseMode string

const (
	// AlwaysDeny refuses at once; it is also what every unknown mode means.
	AlwaysDeny FirstUseMode = "always_deny"
	// DenyWithReview refuses at once and raises an approval.
	DenyWithReview FirstUseMode = "deny_with_review"
	// WaitForReview raises an approval and holds the request for a while.
	WaitForReview FirstUseMode = "wait_for_review"
)

// Normalize returns the mode that is enforced: an empty or unknown mode denies.
func (m FirstUseMode) Normalize() FirstUseMode {
	switch m {
	case DenyWithReview, WaitForReview:
		return m
	}
	return AlwaysDeny
}

// RaisesApproval reports whether a plain miss raises an approval.
func (m FirstUseMode) RaisesApproval() bool {
	return m == DenyWithReview || m == WaitForReview
}

// UnmarshalJSON reads a string, or the legacy boolean: true is
// deny_with_review, false and null are always_deny. An unknown string is kept
// as it stands, so that validation can refuse it by name.
func (m *FirstUseMode) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch {
	case bytes.Equal(b, []byte("null")), bytes.Equal(b, []byte("false")):
		*m = AlwaysDeny
		return nil
	case bytes.Equal(b, []byte("true")):
		*m = DenyWithReview
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("first_use_approval: want a string or a boolean: %w", err)
	}
	*m = FirstUseMode(s)
	return nil
}
