package proxy

import (
	"context"
	"net/url"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
)

// gitRequest is a request of git's smart HTTP protocol.
type gitRequest struct {
	repo    string // canonical lower-case org/repo
	path    string // "info/refs", "git-upload-pack" or "git-receive-pack"
	service string
}

// push reports whether the request is part of a push.
func (g gitRequest) push() bool { return g.service == "git-receive-pack" }

// parseGit reads "org/repo[.git]/PATH" and its query; ok is false for anything
// that is not exactly a request of the protocol.
func parseGit(method, route, query string) (g gitRequest, ok bool) {
	org, rest, ok1 := strings.Cut(route, "/")
	repo, path, ok2 := strings.Cut(rest, "/")
	repo = strings.TrimSuffix(repo, ".git")
	if !ok1 || !ok2 || !gitSegment(org) || !gitSegment(repo) || strings.HasSuffix(strings.ToLower(repo), ".git") {
		return g, false
	}
	g = gitRequest{repo: strings.ToLower(org + "/" + repo), path: path}
	switch path {
	case "info/refs":
		q, err := url.ParseQuery(query)
		if err != nil || len(q) != 1 || len(q["service"]) != 1 || method != "GET" {
			return g, false
		}
		g.service = q.Get("service")
	case "git-upload-pack", "git-receive-pack":
		if query != "" || method != "POST" {
			return g, false
		}
		g.service = path
	default:
		return g, false
	}
	return g, g.service == "git-upload-pack" || g.service == "git-receive-pack"
}

// gitSegment admits the characters that organisations and repositories have.
func gitSegment(s string) bool {
	if s == "" || len(s) > 100 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// git serves the broker route: a repository is reached only with a grant for it.
func (c *front) git(_ context.Context, req h1.Request, route, query string) step {
	g, ok := parseGit(req.Method, route, query)
	if !ok {
		return c.say(req, 400, errorBody{"bad_request", "not a request of git's smart HTTP protocol"})
	}
	if _, granted := c.s.o.Config.GitGrants[g.repo]; !granted {
		return c.say(req, 403, errorBody{"no_grant", "the run has no grant for " + g.repo + "; the operator or author must add one"})
	}
	return c.say(req, 501, errorBody{"no_git_broker", "the git broker is switched off in this proxy"})
}
