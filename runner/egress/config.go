package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// SidecarName is the sidecar's name in every sandbox.
const SidecarName = "wardyn-proxy"

// Config is the sidecar's proxy configuration: what runner.BuildProxyConfig
// writes and ParseConfig reads. The first four keys are always present.
type Config struct {
	RunID           string              `json:"run_id"`
	ControlPlaneURL string              `json:"control_plane_url"`
	RunToken        string              `json:"run_token"`
	Policy          types.RunPolicySpec `json:"policy"`

	Injection          []InjectionGrant     `json:"injection,omitempty"`
	Listen             string               `json:"listen,omitempty"`
	DecisionBufferSize int                  `json:"decision_buffer_size,omitempty"`
	MITMCACertPEM      string               `json:"mitm_ca_cert_pem,omitempty"`
	MITMCAKeyPEM       string               `json:"mitm_ca_key_pem,omitempty"`
	MITMHosts          []string             `json:"mitm_hosts,omitempty"`
	MITMLLM            bool                 `json:"mitm_llm,omitempty"`
	GitGrants          map[string]uuid.UUID `json:"git_grants,omitempty"`
	UpstreamProxyURL   string               `json:"upstream_proxy_url,omitempty"`
}

// InjectionGrant is a rule and its grant as they travel to the sidecar: the
// four keys of the rule beside grant_id.
type InjectionGrant struct {
	InjectionRule
	GrantID uuid.UUID `json:"grant_id"`
}

// ParseConfig reads a Config strictly: unknown keys, trailing data and missing
// required values are refused. It does not judge the policy's entries.
func ParseConfig(b []byte) (Config, error) {
	var c Config
	if err := strictJSON(b, &c); err != nil {
		return Config{}, fmt.Errorf("proxy configuration: %w", err)
	}
	var errs []error
	if id, err := uuid.Parse(c.RunID); err != nil {
		errs = append(errs, fmt.Errorf("run_id %q is not a UUID", c.RunID))
	} else if id == uuid.Nil {
		errs = append(errs, errors.New("run_id is the nil UUID"))
	}
	if c.ControlPlaneURL == "" {
		errs = append(errs, errors.New("control_plane_url is missing"))
	}
	if c.RunToken == "" {
		errs = append(errs, errors.New("run_token is missing"))
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("proxy configuration: %w", err)
	}
	return c, nil
}

func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("data after the JSON value")
	}
	return nil
}
