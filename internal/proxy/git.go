package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/gitproto"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	defaultGitHost = "github.com"
	brokerRule     = "git broker" // of what it refuses before there is a grant
	maxCommands    = 64 << 10     // bytes of a push that are read before any is sent
)

// gitRoute serves the broker: a repository is reached with the token of its
// grant, which the sandbox never sees.
func (c *front) gitRoute(ctx context.Context, req h1.Request, route, query string) step {
	g, err := gitproto.Parse(req.Method, route, query)
	switch {
	case errors.Is(err, gitproto.ErrLFS):
		return c.refuseBroker(req, g, route, policy.Ruling{Decision: egress.Deny, Source: policy.Denied, Rule: brokerRule, Cause: "git LFS is not brokered",
			Hint: "set GIT_LFS_SKIP_SMUDGE=1, or let the author allow the storage host"}, 403)
	case err != nil:
		return c.refuseBroker(req, g, route, policy.Ruling{Decision: egress.Deny, Source: policy.BadRequest, Rule: brokerRule, Cause: err.Error(),
			Hint: "the request itself is malformed; no setting changes that"}, 400)
	}
	grant, granted := c.s.o.Config.GitGrants[g.Repo]
	rule := c.s.o.Node.Git[g.Repo]
	switch {
	case !granted:
		return c.refuseBroker(req, g, route, policy.Ruling{Decision: egress.Deny, Source: policy.Denied, Rule: brokerRule, Cause: "no git block names " + g.Repo,
			Hint: fmt.Sprintf("the author can add a git block with repo = %q, and with a grant of the operator's or a token_file", g.Repo)}, 403)
	case c.s.o.Control == nil:
		return c.say(req, 503, errorBody{"no_control_plane", "this proxy runs without a control plane"})
	}
	return c.gitForward(ctx, req, g, rule, grant)
}

// gitForward judges and carries one request of the protocol.
func (c *front) gitForward(ctx context.Context, req h1.Request, g gitproto.Request, rule egress.GitRule, grant uuid.UUID) step {
	host := rule.Host
	if host == "" {
		host = defaultGitHost
	}
	d := destination{host: host, port: 443, target: g.Target()}
	f := c.s.newFlow(ask{host: host, port: 443, method: req.Method, path: d.path(), scheme: "https"})
	v := c.s.admitGranted(f.ask, "git grant "+g.Repo)
	if v.OK() && g.Push() && rule.FetchOnly {
		v.Ruling = policy.Ruling{Decision: egress.Deny, Source: policy.Denied, Rule: "git grant " + g.Repo, Cause: "the grant for " + g.Repo + " is for fetching only",
			Hint: "the author's git block may say fetch_only, and the operator's git_grant needs push = true"}
	}
	if !v.OK() {
		return c.refuseGit(f, req, g, v.Ruling, statusFor(v.Ruling))
	}
	x := &exchange{c: c, f: f, req: req, d: d, v: v, tls: true, body: h1.NewBody(c.src, req.Length)}
	if g.Push() && g.Path != "info/refs" {
		if bad, status := x.checkPush(c.s.pushRefs(rule)); bad != nil {
			return x.refusePush(*bad, status)
		}
	}
	token, err := c.s.git.token(ctx, c.s.o.Control, grant)
	if err != nil {
		c.s.log.Warn("git grant not minted", "repo", g.Repo, "error", err)
		x.req.Close = x.req.Close || x.body.Peeked() // as of x.refuse
		return c.refuseGit(f, x.req, g, policy.Ruling{Decision: egress.Deny, Source: policy.UpstreamTLS,
			Cause: "the token for " + g.Repo + " could not be minted", Hint: "the grant may wait for an approval; try again later"}, 502)
	}
	f.detail.InjectedBy, f.detail.Visibility = "git:"+g.Repo, "full"
	x.out.inject = c.s.gitCredential(token)
	x.again = func(resp h1.Response) bool { // E103: the token may have been rotated
		if resp.Status != 401 {
			return false
		}
		c.s.git.forget(grant)
		fresh, err := c.s.git.token(ctx, c.s.o.Control, grant)
		if err != nil || fresh == token {
			return false
		}
		x.out.inject = c.s.gitCredential(fresh)
		return true
	}
	return x.run(ctx)
}

// admitGranted is admit for a request that a grant allows in the place of the
// allow list: grammar, address guard, deny lists, ceilings and methods hold.
func (s *Server) admitGranted(a ask, rule string) verdict {
	auth, bad := grammar(a)
	if bad != nil {
		return verdict{Ruling: *bad}
	}
	return verdict{Authority: auth, Ruling: s.policy.JudgeGranted(policy.Request{Authority: auth, Method: a.method}, rule)}
}

// pushRefs are the prefixes that a push may change.
func (s *Server) pushRefs(rule egress.GitRule) []string {
	if len(rule.PushRefs) > 0 {
		return rule.PushRefs
	}
	return []string{"refs/heads/wardyn/" + s.runID.String() + "/"}
}

// checkPush reads the commands of a push, without consuming them, and refuses
// what is outside the prefixes before a byte of it goes on.
func (x *exchange) checkPush(prefixes []string) (*policy.Ruling, int) {
	refuse := func(status int, cause, hint string) (*policy.Ruling, int) {
		return &policy.Ruling{Decision: egress.Deny, Source: policy.Denied, Rule: "push " + strings.Join(prefixes, " "), Cause: cause, Hint: hint}, status
	}
	if len(prefixes) == 1 && prefixes[0] == "*" {
		return nil, 0
	}
	if _, coded := x.req.Fields.Get("Content-Encoding"); coded {
		return refuse(415, "a compressed push cannot be checked", "push without Content-Encoding")
	}
	if x.req.Expect100 {
		if x.c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) != nil {
			return refuse(400, "the client left", "")
		}
		x.req.Expect100 = false
		x.req.Fields = without(x.req.Fields, "Expect")
	}
	updates, err := x.readCommands()
	if err != nil {
		return refuse(400, printable(err.Error()), "the push itself is malformed or too large to check")
	}
	for _, u := range updates {
		if !hasAnyPrefix(u.Ref, prefixes) {
			return refuse(403, "a push to "+printable(u.Ref)+" is not allowed", "push to a branch below "+strings.Join(prefixes, " or ")+"; others are for push_refs of the job's git block, within the operator's grant")
		}
		if u.Delete() {
			return refuse(403, "deleting "+printable(u.Ref)+" is not allowed", "that takes push_refs = [\"*\"] in the job's git block, within the operator's grant")
		}
	}
	return nil, 0
}

func (x *exchange) readCommands() ([]gitproto.Update, error) {
	for {
		b, err := x.body.More(maxCommands)
		updates, perr := gitproto.ParsePush(b)
		switch {
		case !errors.Is(perr, gitproto.ErrShort):
			return updates, perr
		case errors.Is(err, io.EOF):
			return nil, errors.New("the push ends within its commands")
		case errors.Is(err, io.ErrShortBuffer):
			return nil, fmt.Errorf("the push has more than %d bytes of commands", maxCommands)
		case err != nil:
			return nil, err
		}
	}
}

func hasAnyPrefix(ref string, prefixes []string) bool {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(ref, p); ok && rest != "" {
			return true
		}
	}
	return false
}

func without(fields h1.Fields, name string) h1.Fields {
	out := make(h1.Fields, 0, len(fields))
	for _, f := range fields {
		if !strings.EqualFold(f.Name, name) {
			out = append(out, f)
		}
	}
	return out
}

func (s *Server) gitCredential(token string) *credential {
	coded := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	s.o.Mask.Add(token, coded)
	cred := newCredential("Authorization", "Basic "+coded)
	return &cred
}

// gitTokens keeps minted tokens, one per grant: a grant that is good for one
// minting only must serve a whole clone.
type gitTokens struct {
	group singleflight.Group

	mu     sync.Mutex
	minted map[uuid.UUID]egress.MintedCredential
}

// tokenEarly is how long before its end a token is minted anew.
const tokenEarly = time.Minute

func (g *gitTokens) token(ctx context.Context, control ControlPlane, grant uuid.UUID) (string, error) {
	if m, ok := g.get(grant); ok {
		return m.Token, nil
	}
	v, err, _ := g.group.Do(grant.String(), func() (any, error) {
		if m, ok := g.get(grant); ok {
			return m.Token, nil
		}
		m, err := control.Mint(context.WithoutCancel(ctx), grant)
		if err != nil {
			return "", err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.minted == nil {
			g.minted = map[uuid.UUID]egress.MintedCredential{}
		}
		g.minted[grant] = m
		return m.Token, nil
	})
	if err != nil {
		return "", err
	}
	return v.(string), nil
}

func (g *gitTokens) get(grant uuid.UUID) (egress.MintedCredential, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.minted[grant]
	return m, ok && (m.ExpiresAt == 0 || time.Until(time.UnixMilli(m.ExpiresAt)) > tokenEarly)
}

func (g *gitTokens) forget(grant uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.minted, grant)
}
