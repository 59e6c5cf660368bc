package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Bounds of one question to an agent. An allocation comes with its whole job.
const (
	agentAPITimeout = 15 * time.Second
	agentAPIMost    = 16 << 20 // bytes
)

// allocation is what is read of an allocation: what its job asks for.
type allocation struct {
	Job struct {
		TaskGroups []struct {
			Name  string
			Tasks []struct {
				Name      string
				Resources struct{ MemoryMaxMB int64 }
			}
		}
	}
}

// memoryMax is the memory_max of one of its tasks, in MiB: 0 when there is none,
// -1 for no upper limit.
func (a allocation) memoryMax(group, task string) int64 {
	for _, g := range a.Job.TaskGroups {
		for _, t := range g.Tasks {
			if g.Name == group && t.Name == task {
				return t.Resources.MemoryMaxMB
			}
		}
	}
	return 0
}

// allocation asks the agent about one. Its error does not name the token.
func (a *AgentAPI) allocation(ctx context.Context, id, namespace string) (out allocation, err error) {
	ctx, cancel := context.WithTimeout(ctx, agentAPITimeout)
	defer cancel()
	at := a.URL + "/v1/allocation/" + url.PathEscape(id) + "?" + url.Values{"namespace": {namespace}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return out, err
	}
	if a.TokenFile != "" {
		token, err := readHostSecret(a.TokenFile)
		if err != nil {
			return out, fmt.Errorf("plugin option agent_api.token_file: %w", err)
		}
		req.Header.Set("X-Nomad-Token", strings.TrimSpace(token))
	}
	client, err := a.client()
	if err != nil {
		return out, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%s: %s", a.URL, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, agentAPIMost)).Decode(&out); err != nil {
		return out, fmt.Errorf("%s: its answer cannot be read: %w", a.URL, err)
	}
	return out, nil
}

// client makes a client for one question: through no proxy, and it follows no
// redirect, which could lead the token elsewhere.
func (a *AgentAPI) client() (*http.Client, error) {
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if a.CAFile != "" {
		b, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("plugin option agent_api.ca_file: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("plugin option agent_api.ca_file: %s holds no certificate", a.CAFile)
		}
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: t, CheckRedirect: refuse}, nil
}
