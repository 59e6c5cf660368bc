package control

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Names in a run's folder. Only folderName is seen by anybody but root.
const (
	folderName = "control"
	socketName = "control.sock"
	portsName  = "ports.sock"
	configName = "proxy.json" // the configuration, token and keys in it
	readyName  = "ready"      // there once the sidecar listens
)

// config is what a run's socket serves.
type config struct {
	raw        json.RawMessage
	listen     netip.Addr // the sidecar's on the run's network
	agent      netip.Addr // the sandbox's there
	parsed     egress.Config
	policyHash string
}

// parseConfig refuses a configuration that the sidecar would refuse, and one
// that is another run's.
func parseConfig(id uuid.UUID, raw []byte, listen, agent netip.Addr) (config, error) {
	c, err := egress.ParseConfig(raw)
	if err != nil {
		return config{}, err
	}
	if c.RunID != id.String() {
		return config{}, fmt.Errorf("the proxy configuration is run %s's", c.RunID)
	}
	policy, err := json.Marshal(c.Policy)
	if err != nil {
		return config{}, fmt.Errorf("policy: %w", err)
	}
	sum := sha256.Sum256(policy)
	return config{raw: raw, listen: listen, agent: agent, parsed: c, policyHash: hex.EncodeToString(sum[:8])}, nil
}

// secrets are the configuration's values that nobody is to read in a record.
func (c config) secrets() []string {
	out := []string{c.parsed.RunToken, c.parsed.MITMCAKeyPEM}
	if in := c.parsed.Policy.LLMInspection; in != nil {
		out = append(out, in.WorkspaceSecretValues...)
	}
	if u, err := url.Parse(c.parsed.UpstreamProxyURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		out = append(out, u.User.String(), password)
	}
	return out
}

// stored is a configuration at rest.
type stored struct {
	Listen netip.Addr      `json:"listen"`
	Agent  netip.Addr      `json:"agent,omitzero"`
	Proxy  json.RawMessage `json:"proxy"`
}

// saveConfig stores a configuration for the next process. Whether a sidecar
// listened with an older one is forgotten.
func saveConfig(d *datadir.Dir, id uuid.UUID, c config) error {
	dir, err := d.MakeRunDir(id)
	if err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(filepath.Join(dir, readyName))); err != nil {
		return err
	}
	b, err := json.Marshal(stored{Listen: c.listen, Agent: c.agent, Proxy: c.raw})
	if err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(dir, configName), b)
}

// loadConfig reads it back; false when the run never had one.
func loadConfig(d *datadir.Dir, id uuid.UUID) (config, bool, error) {
	p := filepath.Join(d.RunDir(id), configName)
	b, err := os.ReadFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, false, nil
	}
	if err != nil {
		return config{}, false, err
	}
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return config{}, false, fmt.Errorf("%s: %w", p, err)
	}
	c, err := parseConfig(id, s.Proxy, s.Listen, s.Agent)
	if err != nil {
		return config{}, false, fmt.Errorf("%s: %w", p, err)
	}
	return c, true, nil
}
