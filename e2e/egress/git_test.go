package egress

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// gitPrograms are what a clone and a push over HTTP take.
func gitPrograms(t *testing.T) map[string]string {
	files := testenv.Programs(t, "/usr/bin/git", "/usr/lib/git-core/git-remote-http")
	files["usr/lib/git-core/git"] = files["usr/bin/git"]
	return files
}

// gitServer serves bare repositories by git's own smart HTTP server, to those
// who have the token.
type gitServer struct {
	root  string
	token atomic.Value
}

func newGitServer(t *testing.T, token string, repos ...string) *gitServer {
	t.Helper()
	s := &gitServer{root: t.TempDir()}
	s.token.Store(token)
	for _, name := range repos {
		s.add(t, name, "README", []byte("hello from "+name+"\n"))
	}
	return s
}

// add makes a repository with one file.
func (s *gitServer) add(t *testing.T, name, file string, content []byte) {
	t.Helper()
	s.git(t, "init", "-q", "--bare", "-b", "main", name)
	s.git(t, "-C", name, "config", "http.receivepack", "true")
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, file), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.git(t, "-C", work, "init", "-q", "-b", "main")
	s.git(t, "-C", work, "add", file)
	s.git(t, "-C", work, "commit", "-q", "-m", "first")
	s.git(t, "-C", work, "push", "-q", filepath.Join(s.root, name), "main")
}

func (s *gitServer) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, token, ok := r.BasicAuth(); !ok || user != "x-access-token" || token != s.token.Load() {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	(&cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=agent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}).ServeHTTP(w, r)
}

const (
	gitToken    = "token-of-the-git-grant-4b1d"
	gitRotated  = "token-after-rotation-0c9a"
	gitSetup    = "export HOME=/tmp GIT_AUTHOR_NAME=agent GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=agent GIT_COMMITTER_EMAIL=a@example.com; "
	brokeredURL = "http://wardyn-proxy:3128/wardyn/gh/"
)

// TestGitBroker: a real git clones, fetches and pushes by grant, to the refs
// that are its own, and the token stays outside.
func TestGitBroker(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(token, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(gitToken)
	grant := func(repo string, more ...any) []any {
		g := map[string]any{"host": "git.example.internal", "repos": []any{repo}, "token_file": token, "namespaces": []any{"*"}}
		for i := 0; i < len(more); i += 2 {
			g[more[i].(string)] = more[i+1]
		}
		return []any{g}
	}
	r := newRigWith(t, gitPrograms(t), map[string]any{"git_grant": []any{map[string]any{
		"web": grant("acme/*", "push", true), "read": grant("acme/docs"),
	}}})
	s := newGitServer(t, gitToken, "acme/web.git", "acme/docs.git", "acme/hidden.git")
	r.up.mux.Handle("/acme/", s)
	each(t, func(t *testing.T, class string) {
		s.token.Store(gitToken)
		write(gitToken)
		config := map[string]any{"git": []any{
			map[string]any{"web": []any{map[string]any{"repo": "acme/web", "grant": "web"}}},
			map[string]any{"docs": []any{map[string]any{"repo": "acme/docs", "grant": "read"}}},
		}, "repo": []any{map[string]any{
			"owner": "acme", "name": "web", "base_branch": "main", "author_name": "A Gent", "author_email": "agent@example.com",
		}}}
		w := r.start(t, class, config)
		eventually(t, "the clone of the repo block", func() bool {
			return strings.Contains(w.sh(t, "cat /workspace/web/README"), "hello from acme/web.git")
		})
		t.Run("D28 a repo block", func(t *testing.T) { w.cloned(t, s) })
		out := w.sh(t, gitSetup+"cd /tmp && git clone -q "+brokeredURL+"acme/web && cat web/README && git clone -q "+brokeredURL+"acme/docs.git && cat docs/README")
		if !strings.Contains(out, "hello from acme/web.git") || !strings.Contains(out, "hello from acme/docs.git") {
			t.Fatalf("clone: %s", out)
		}
		branch := "wardyn/" + strings.ReplaceAll(w.session(t), ".", "-") + "/fix"
		in := gitSetup + "cd /tmp/web; "
		out += w.sh(t, in+"date >>README; git commit -qam change; git push origin HEAD:refs/heads/"+branch+" && echo pushed")
		if !strings.Contains(out, "pushed") || !strings.Contains(s.git(t, "-C", "acme/web.git", "branch", "--list", branch), branch) {
			t.Errorf("push: %s", out)
		}
		for reason, script := range map[string]string{ // I4: git shows each, and each is recorded
			"a push to refs/heads/main is not allowed":     in + "git push origin HEAD:main",
			"deleting refs/heads/" + branch:                in + "git push origin :" + branch,
			"the grant for acme/docs is for fetching only": gitSetup + "cd /tmp/docs; date >>README; git commit -qam change; git push origin HEAD:refs/heads/" + branch,
			"no git block names acme/hidden":               gitSetup + "git clone " + brokeredURL + "acme/hidden /tmp/hidden",
		} {
			got := w.sh(t, script+" && echo went through")
			if strings.Contains(got, "went through") || !strings.Contains(got, "remote: wardyn: "+reason) {
				t.Errorf("%s: %s", reason, got)
			}
			w.recorded(t, reason)
			out += got
		}
		write(gitRotated) // E103
		s.token.Store(gitRotated)
		if got := w.sh(t, in+"git fetch -q && echo fetched"); !strings.Contains(got, "fetched") {
			t.Errorf("after the token was rotated: %s", got)
		}
		w.holdsNone(t, out, gitToken, gitRotated)
		s.token.Store("a token that nobody has")
		t.Run("K7 a clone that fails", func(t *testing.T) { r.cloneFails(t, class, config) })
	})
}
