package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// brokered is a local route that goes to the control plane under the run's
// token. The sandbox's own credentials, headers and query stay here.
type brokered struct {
	method string
	path   string // at the control plane
	most   int64  // bytes of body
	id     bool   // a UUID follows
}

const (
	mib       = 1 << 20
	maxAnswer = 10 * mib
	// maxBrokered bounds the requests of the sandbox's own under way at once. The
	// control plane takes twice as many of a run: records, approvals and
	// credentials come through however slowly a sandbox sends.
	maxBrokered = 16
)

var brokeredRoutes = map[string]brokered{
	"v1/credentials/mint": {method: "POST", path: egress.PathMint, most: 10 * mib},
	"v1/approvals":        {method: "GET", path: egress.PathApprovals, id: true},
	"v1/recordings":       {method: "PUT", path: egress.PathRecording, most: 100 * mib, id: true},
	"v1/scan-results":     {method: "PUT", path: "/api/v1/internal/scan-results", most: 8 * mib, id: true},
	"v1/verify-results":   {method: "PUT", path: "/api/v1/internal/verify-results", most: 8 * mib, id: true},
	"v1/compose-results":  {method: "PUT", path: "/api/v1/internal/compose-results", most: 8 * mib, id: true},
	"v1/sso-token":        {method: "PUT", path: "/api/v1/internal/sso-token", most: 8 * mib, id: true},
}

// findBrokered looks a route up; with an id the last segment must be a UUID in
// its canonical form.
func findBrokered(route string) (b brokered, path string, ok bool) {
	if b, ok = brokeredRoutes[route]; ok {
		return b, b.path, !b.id
	}
	i := strings.LastIndexByte(route, '/')
	if i < 0 {
		return brokered{}, "", false
	}
	b, ok = brokeredRoutes[route[:i]]
	id, err := uuid.Parse(route[i+1:])
	if !ok || !b.id || err != nil || id.String() != strings.ToLower(route[i+1:]) {
		return brokered{}, "", false
	}
	return b, b.path + "/" + id.String(), true
}

var errTooLarge = errors.New("the body is larger than this route takes")

// forwardLocal carries a brokered request to the control plane.
func (c *front) forwardLocal(ctx context.Context, req h1.Request, route string) step {
	b, path, ok := findBrokered(route)
	switch {
	case !ok:
		return c.say(req, 404, errorBody{"not_found", "there is no such route"})
	case req.Method != b.method:
		return c.wrongMethod(req, b.method)
	case c.s.o.Control == nil:
		return c.say(req, 503, errorBody{"no_control_plane", "this proxy runs without a control plane"})
	case req.Length > b.most || b.most == 0 && req.Length != 0:
		return c.say(req, 413, errorBody{"too_large", errTooLarge.Error()})
	}
	select {
	case c.s.brokered <- struct{}{}:
		defer func() { <-c.s.brokered }()
	default:
		return c.say(req, 429, errorBody{"too_many", "too many requests to the control plane are under way; try again"})
	}
	return c.broker(ctx, req, b, path)
}

// broker carries a request that may go to the control plane.
func (c *front) broker(ctx context.Context, req h1.Request, b brokered, path string) step {
	if req.Expect100 {
		if c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) != nil {
			return hangup
		}
		req.Expect100 = false
	}
	body := &cappedBody{Body: h1.NewBody(c.src, req.Length), left: b.most}
	var rd io.Reader
	if req.Length != 0 {
		rd = body
	}
	ct, _ := req.Fields.Get("Content-Type")
	resp, err := c.s.o.Control.Do(ctx, req.Method, path, rd, ct, req.Length)
	switch {
	case body.over:
		req.Close = true
		return c.say(req, 413, errorBody{"too_large", errTooLarge.Error()})
	case err != nil:
		c.s.log.Warn("brokered request failed", "path", path, "error", err)
		req.Close = req.Close || req.Length != 0
		req.Length = 0
		return c.say(req, 502, errorBody{"control_plane_unreachable", "the control plane did not answer"})
	}
	defer resp.Body.Close()
	return c.brokeredAnswer(req, resp, body.Done() || req.Length == 0)
}

// brokeredAnswer hands on status, type, body, and when to come again.
func (c *front) brokeredAnswer(req h1.Request, resp *http.Response, bodyDone bool) step {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(b) > maxAnswer {
		req.Close = true
		return c.say(req, 502, errorBody{"control_plane_answer", "the control plane's answer is not usable"})
	}
	keep := !req.Close && bodyDone
	fields := h1.Fields{{Name: "Content-Length", Value: strconv.Itoa(len(b))}, {Name: "Cache-Control", Value: "no-store"}}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := resp.Header.Get(name); v != "" {
			fields = append(fields, h1.Field{Name: name, Value: v})
		}
	}
	if !keep {
		fields = append(fields, h1.Field{Name: "Connection", Value: "close"})
	}
	out := h1.AppendFields(h1.AppendStatus(nil, resp.StatusCode, http.StatusText(resp.StatusCode)), fields)
	if c.write(append(out, b...)) != nil || !keep {
		c.linger()
		return hangup
	}
	return proceed
}

// cappedBody refuses a body that is larger than announced or allowed; it never
// passes a part off as the whole.
type cappedBody struct {
	*h1.Body
	left int64
	over bool
}

func (b *cappedBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.over = true
		return 0, errTooLarge
	}
	return n, err
}

// model serves the brokered model routes.
func (c *front) model(_ context.Context, req h1.Request, _ string) step {
	return c.say(req, 404, errorBody{"no_llm_credential", "this run has no brokered credential for a model provider"})
}
