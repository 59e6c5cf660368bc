package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/gitproto"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
)

// maxRefusedPush is how much of a refused push is read, so that its answer can be
// git's own; git reads none before it has sent all.
const maxRefusedPush = 64 << 20

// refuseBroker refuses a request to the broker that leads to no server.
func (c *front) refuseBroker(req h1.Request, g gitproto.Request, route string, r policy.Ruling, status int) step {
	f := c.s.newFlow(ask{method: req.Method, path: "/wardyn/gh/" + route, scheme: "http"})
	f.ask.host, f.ask.port = splitPort(req.Host, 80)
	return c.refuseGit(f, req, g, r, status)
}

// refuseGit refuses a request of the protocol. Git shows its user a plain text
// that it gets for the first request of a clone, fetch or push, and of no other.
func (c *front) refuseGit(f *flow, req h1.Request, g gitproto.Request, r policy.Ruling, status int) step {
	if g.Path != "info/refs" {
		return c.refuse(f, req, r, status)
	}
	f.verdict(r, status)
	return c.answerLocal(req, func(keep bool) []byte {
		text := gitText(f, r)
		fields := h1.Fields{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}, {Name: "Content-Length", Value: strconv.Itoa(len(text))},
			{Name: "Cache-Control", Value: "no-store"}, {Name: "X-Wardyn-Egress", Value: kindOf(r)}}
		return wholeAnswer(status, http.StatusText(status), fields, []byte(text), req.Method == http.MethodHead, keep)
	})
}

// gitText is what a person at a git client is told.
func gitText(f *flow, r policy.Ruling) string {
	text := fmt.Sprintf("wardyn: %s (%s)\n", r.Cause, r.Source)
	if r.Hint != "" {
		text += "wardyn: " + r.Hint + "\n"
	}
	return text + "wardyn: decision " + f.detail.FlowID + "\n"
}

// refusePush refuses a push whose commands were read. Where the client asked for
// a report it gets one, as from a server whose hook declines, and shows the reason
// beside each ref; else, or when the push is too large to be read, the status.
func (x *exchange) refusePush(r policy.Ruling, status int) step {
	ahead, _ := x.body.More(0)
	updates, perr := gitproto.ParsePush(ahead)
	caps := gitproto.Capabilities(ahead)
	if perr != nil || len(updates) == 0 || status != http.StatusForbidden || !caps["report-status"] && !caps["report-status-v2"] {
		x.req.Close = true
		return x.c.refuse(x.f, x.req, r, status)
	}
	if n, err := io.CopyN(io.Discard, x.body, maxRefusedPush); n == maxRefusedPush || err != io.EOF {
		x.req.Close = true
		return x.c.refuse(x.f, x.req, r, status)
	}
	x.f.verdict(r, http.StatusOK)
	body := gitproto.Refusal(caps, updates, r.Cause, gitText(x.f, r))
	fields := h1.Fields{{Name: "Content-Type", Value: "application/x-git-receive-pack-result"}, {Name: "Content-Length", Value: strconv.Itoa(len(body))},
		{Name: "Cache-Control", Value: "no-store"}, {Name: "X-Wardyn-Egress", Value: kindOf(r)}}
	if x.c.write(wholeAnswer(http.StatusOK, http.StatusText(http.StatusOK), fields, body, false, !x.req.Close)) != nil || x.req.Close {
		return hangup
	}
	return proceed
}
