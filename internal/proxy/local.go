package proxy

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
)

// local serves the routes that the proxy itself has. They exist in origin form
// on the proxy port only, and their paths are matched as they stand on the wire.
func (c *front) local(ctx context.Context, req h1.Request) step {
	path, query, _ := strings.Cut(req.Target, "?")
	if !strings.HasPrefix(path, "/wardyn/") {
		f := c.s.newFlow(ask{host: req.Host, port: -1, method: req.Method, path: path, scheme: "http"})
		f.ask.host, f.ask.port = splitPort(req.Host, 80)
		return c.refuseWith(f, req, policy.BadRequest,
			"this is a proxy: a request has an absolute target, as in GET http://host/path", 400)
	}
	if strings.ContainsAny(path, "%\\") || strings.Contains(path, "//") || dotSegment(path) {
		return c.say(req, 404, errorBody{"not_found", "local routes are matched byte for byte"})
	}
	route := strings.TrimPrefix(path, "/wardyn/")
	switch {
	case route == "v1/denials":
		return c.denials(req, query)
	case route == "v1/explain":
		return c.explain(ctx, req, query)
	case strings.HasPrefix(route, "llm/"):
		return c.model(ctx, req, route)
	case strings.HasPrefix(route, "gh/"):
		return c.gitRoute(ctx, req, strings.TrimPrefix(route, "gh/"), query)
	}
	return c.forwardLocal(ctx, req, route)
}

func dotSegment(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		if seg == "." || seg == ".." {
			return true
		}
	}
	return false
}

type errorBody struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

// say answers a local request with JSON.
func (c *front) say(req h1.Request, status int, body any) step {
	return c.answerLocal(req, func(keep bool) []byte {
		return jsonAnswer(status, http.StatusText(status), nil, body, req.Method == "HEAD", keep)
	})
}

// answerLocal writes the answer to a request whose body nobody wants.
func (c *front) answerLocal(req h1.Request, answer func(keep bool) []byte) step {
	keep := !req.Close && !req.Expect100 && req.Length <= lingerBytes
	if c.write(answer(keep)) != nil {
		return hangup
	}
	if keep && c.drain(req.Length) {
		return proceed
	}
	c.linger()
	return hangup
}

func (c *front) wrongMethod(req h1.Request, want string) step {
	return c.say(req, 405, errorBody{"method_not_allowed", "this route takes " + want})
}

// denials lists the latest refusals, newest first.
func (c *front) denials(req h1.Request, query string) step {
	if req.Method != "GET" {
		return c.wrongMethod(req, "GET")
	}
	n := 20
	if q, err := url.ParseQuery(query); err == nil && q.Get("last") != "" {
		k, err := strconv.Atoi(q.Get("last"))
		if err != nil || k < 1 {
			return c.say(req, 400, errorBody{"bad_request", "last is a number from 1 to " + strconv.Itoa(keptRefusals)})
		}
		n = min(k, keptRefusals)
	}
	return c.say(req, 200, struct {
		Denials []refusal `json:"denials"`
	}{c.s.recent.last(n)})
}

// explanation is what policy says about a host, by the code that enforces it.
type explanation struct {
	Host     string     `json:"host"`
	Port     int        `json:"port"`
	Method   string     `json:"method"`
	Decision string     `json:"decision"`
	Code     string     `json:"code"`
	Rule     string     `json:"rule,omitempty"`
	Cause    string     `json:"cause,omitempty"`
	Hint     string     `json:"hint,omitempty"`
	Approval *uuid.UUID `json:"approval_id,omitempty"`
	Note     string     `json:"note"`
}

// explain says what would become of a request. It resolves nothing and raises
// no approval, and knows of those that were raised.
func (c *front) explain(ctx context.Context, req h1.Request, query string) step {
	if req.Method != "GET" {
		return c.wrongMethod(req, "GET")
	}
	q, err := url.ParseQuery(query)
	if err != nil || q.Get("host") == "" {
		return c.say(req, 400, errorBody{"bad_request", "want explain?host=HOST, and optionally port and method"})
	}
	a := ask{host: q.Get("host"), port: 443, method: "CONNECT"}
	if h, p := splitPort(a.host, 443); p > 0 {
		a.host, a.port = h, p
	}
	if p := q.Get("port"); p != "" {
		a.port, _ = strconv.Atoi(p)
	}
	if m := q.Get("method"); m != "" {
		a.method, a.cleartext = m, m != "CONNECT"
	}
	return c.say(req, 200, c.s.explain(ctx, a))
}

func (s *Server) explain(ctx context.Context, a ask) explanation {
	out := explanation{Host: printable(a.host), Port: a.port, Method: printable(a.method),
		Note: "names are resolved, and their addresses vetted, only when a request is made"}
	auth, bad := grammar(a)
	r := policy.Ruling{}
	if bad != nil {
		r = *bad
	} else {
		out.Host = auth.Host.String()
		r = s.judge(policy.Request{Authority: auth, Method: a.method, Cleartext: a.cleartext}, func() (policy.Approval, *uuid.UUID) { return s.book.Known(ctx, auth) })
		out.Approval = r.Approval
	}
	out.Decision, out.Code, out.Rule, out.Cause, out.Hint = string(r.Decision), r.Source, r.Rule, r.Cause, r.Hint
	if r.Ask {
		out.Hint = "a request raises an approval (" + string(s.policy.Mode()) + "); " + r.Hint
	}
	return out
}
