// Package controlplane speaks to the run's control plane: over the unix socket
// that the plugin serves, or over http(s). Every call but the first carries the
// run token; the token is renewed in one place and read at call time.
package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Timeout bounds every call; it exceeds the longest credential refresh.
const Timeout = 130 * time.Second

// maxAnswer bounds an answer that is read into memory.
const maxAnswer = 10 << 20

// Client calls one control plane.
type Client struct {
	base string
	hc   *http.Client

	mu    sync.RWMutex
	token string

	// wire carries decisions; nil where TLS has to be spoken.
	wire *wire
}

// New returns a client for "unix:///path/to.sock", "http://..." or "https://...".
func New(rawURL string) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("control plane URL does not parse")
	}
	tr := &http.Transport{DisableCompression: true, MaxIdleConns: 4, IdleConnTimeout: 60 * time.Second}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || u.Path == "" || u.Fragment != "" {
			return nil, fmt.Errorf("control plane URL %q: want unix:///path/to.sock", rawURL)
		}
		path := u.Path
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		c := newClient("http://wardyn-control", tr)
		c.wire = &wire{network: "unix", addr: path, host: "wardyn-control"}
		return c, nil
	case "http", "https":
		if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("control plane URL: want %s://host[:port] without user, query or fragment", u.Scheme)
		}
		return newClient(strings.TrimRight(u.String(), "/"), tr), nil
	}
	return nil, fmt.Errorf("control plane URL: scheme %q is not unix, http or https", u.Scheme)
}

func newClient(base string, tr http.RoundTripper) *Client {
	return &Client{base: base, hc: &http.Client{
		Transport: tr, Timeout: Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// SetToken sets the run token for all calls from now on.
func (c *Client) SetToken(t string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = t
}

// With returns a client of the same control plane that has a token of its own.
func (c *Client) With(token string) *Client {
	return &Client{base: c.base, hc: c.hc, wire: c.wire, token: token}
}

func (c *Client) bearer() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.token
}

// StatusError is an answer that is not a success.
type StatusError struct{ Status int }

// Refused reports whether the control plane understood and said no, which
// asking again at once does not change.
func (e *StatusError) Refused() bool { return e.Status >= 400 && e.Status <= 499 }

func (e *StatusError) Error() string {
	return fmt.Sprintf("control plane answered %d %s", e.Status, http.StatusText(e.Status))
}

// Do carries one request of the sandbox's own below the base URL, with the run
// token. The caller closes the answer's body.
func (c *Client) Do(ctx context.Context, method, path string, body io.Reader, contentType string, length int64) (*http.Response, error) {
	return c.send(ctx, method, path, body, contentType, length, "sandbox")
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader, contentType string, length int64, onBehalf string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if body != nil {
		req.ContentLength = length
		req.Header.Set("Content-Type", contentType)
	}
	if onBehalf != "" {
		req.Header.Set(egress.OnBehalf, onBehalf)
	}
	if t := c.bearer(); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	return resp, nil
}

// call sends in as JSON (nil for no body) and decodes a 2xx answer into out.
func (c *Client) call(ctx context.Context, method, path string, in []byte, out any) error {
	var body io.Reader
	if in != nil {
		body = bytes.NewReader(in)
	}
	resp, err := c.send(ctx, method, path, body, "application/json", int64(len(in)), "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("control plane: read answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &StatusError{Status: resp.StatusCode}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("control plane: decode answer: %w", err)
	}
	return nil
}

// Config fetches the sidecar's configuration as it was written.
func (c *Client) Config(ctx context.Context) ([]byte, error) {
	var raw json.RawMessage
	err := c.call(ctx, http.MethodGet, egress.PathConfig, nil, &raw)
	return raw, err
}

// Own asks for the addresses and prefixes that the node itself holds now.
func (c *Client) Own(ctx context.Context) ([]string, error) {
	var out egress.OwnAddresses
	err := c.call(ctx, http.MethodGet, egress.PathOwn, nil, &out)
	return out.Own, err
}

// Ready tells the control plane that every listener is open.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, egress.PathReady, []byte("{}"), nil)
}

// Decisions delivers records, one a line, and returns nil when all of them were
// taken. An answer that says that the records themselves are bad wraps
// audit.ErrRejected.
func (c *Client) Decisions(ctx context.Context, records []byte) error {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	contentType := "application/json"
	if bytes.IndexByte(records, '\n') >= 0 {
		contentType = "application/x-ndjson"
	}
	status, err := c.post(ctx, egress.PathDecisions, contentType, records)
	switch {
	case err != nil:
		return err
	case status >= 200 && status <= 299:
		return nil
	case status == 400 || status == 413 || status == 422:
		return fmt.Errorf("%w: %w", audit.ErrRejected, &StatusError{Status: status})
	}
	return &StatusError{Status: status}
}

// Injection resolves a grant to the finished header value.
func (c *Client) Injection(ctx context.Context, grant uuid.UUID) (egress.ResolvedInjection, error) {
	var out egress.ResolvedInjection
	err := c.call(ctx, http.MethodGet, egress.PathInjection+"/"+grant.String(), nil, &out)
	return out, err
}

// Mint mints a grant's credential.
func (c *Client) Mint(ctx context.Context, grant uuid.UUID) (egress.MintedCredential, error) {
	var out egress.MintedCredential
	in, err := json.Marshal(egress.MintRequest{GrantID: grant})
	if err != nil {
		return out, fmt.Errorf("mint request: %w", err)
	}
	err = c.call(ctx, http.MethodPost, egress.PathMint, in, &out)
	if err == nil && out.Token == "" {
		err = errors.New("control plane: the grant was minted without a token")
	}
	return out, err
}

// Raise asks for an approval of egress to a host and port.
func (c *Client) Raise(ctx context.Context, run uuid.UUID, scope egress.ApprovalScope) (egress.ApprovalRequest, error) {
	var out egress.ApprovalRequest
	rawScope, err := json.Marshal(scope)
	if err != nil {
		return out, fmt.Errorf("approval scope: %w", err)
	}
	in, err := json.Marshal(struct {
		RunID uuid.UUID       `json:"run_id"`
		Kind  string          `json:"kind"`
		Scope json.RawMessage `json:"requested_scope"`
	}{run, "egress_domain", rawScope})
	if err != nil {
		return out, fmt.Errorf("approval request: %w", err)
	}
	err = c.call(ctx, http.MethodPost, egress.PathApprovals, in, &out)
	return out, err
}

// Approval reads what became of an approval.
func (c *Client) Approval(ctx context.Context, id uuid.UUID) (egress.ApprovalRequest, error) {
	var out egress.ApprovalRequest
	err := c.call(ctx, http.MethodGet, egress.PathApprovals+"/"+id.String(), nil, &out)
	return out, err
}

// Renew asks for a fresh run token, installs it and returns when it expires.
func (c *Client) Renew(ctx context.Context) (time.Time, error) {
	var out struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := c.call(ctx, http.MethodPost, egress.PathRenew, []byte("{}"), &out); err != nil {
		return time.Time{}, err
	}
	if out.Token == "" {
		return time.Time{}, errors.New("control plane: renewal answered without a token")
	}
	c.SetToken(out.Token)
	return out.ExpiresAt, nil
}
