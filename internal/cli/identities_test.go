package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

const identityJob = `
job "small" {
  type      = "batch"
  namespace = "team"
  region    = "eu"
  group "g" {
    restart {
      attempts = 0
    }
    task "web" {
      driver = "wardyn"
      identity {
        env  = true
        file = true
      }
      identity {
        name     = "my-api"
        aud      = ["api.example.org"]
        env      = true
        file     = true
        filepath = "local/api.jwt"
        ttl      = "1h"
      }
      config {
        image   = "busybox:1"
        command = "printenv"
        args    = ["NOMAD_TOKEN", "NOMAD_TOKEN_my-api", "COPY", "RENDERED"]
        # MORE
      }
      env {
        COPY = "${NOMAD_TOKEN_my-api}"
      }
      template {
        destination = "local/env"
        env         = true
        data        = "RENDERED={{ env \"NOMAD_TOKEN_my-api\" }}"
      }
    }
  }
}
`

// TestIdentitiesThroughThePlugin: a task finds its tokens where its job wants
// them, the key set of the run verifies them, and its end leaves that alone.
func TestIdentitiesThroughThePlugin(t *testing.T) {
	keep, jwks, options := t.TempDir(), filepath.Join(t.TempDir(), "jwks.json"), filepath.Join(t.TempDir(), "plugin.hcl")
	if err := os.WriteFile(options, []byte("expose_tokens = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runPlugin(t, []string{"-keep", "-alloc-dir", keep, "-identity-jwks", jwks, "-plugin-config", options, "JOB"},
		strings.Replace(identityJob, "# MORE", "expose_tokens = true", 1))
	kept, err := filepath.Glob(filepath.Join(keep, "*", "web", "local", "*"))
	if code != 0 || err != nil || len(kept) == 0 {
		t.Fatalf("exit %d, %v\nstdout:\n%sstderr:\n%s", code, err, stdout, stderr)
	}
	for _, file := range kept {
		if filepath.Base(file) == "api.jwt" {
			t.Errorf("the token is kept: %s", file)
		}
	}
	seen := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "web | "), "=")
		seen[name] = value
	}
	token := seen["NOMAD_TOKEN_my-api"]
	for _, name := range []string{"COPY", "RENDERED"} {
		if seen[name] != token {
			t.Errorf("%s is %q, want %q", name, seen[name], token)
		}
	}
	if got := verified(t, jwks, token); got.Subject != "eu:team:small:g:web:my-api" || !got.Audience.Contains("api.example.org") || got.Expiry == nil {
		t.Errorf("claims %+v", got)
	}
	if got := verified(t, jwks, seen["NOMAD_TOKEN"]); got.Subject != "eu:team:small:g:web:default" || got.Expiry != nil {
		t.Errorf("claims %+v", got)
	}
	if !strings.Contains(stderr, " * Workload identities are signed with a key of this run's own; its public half is in "+jwks+"\n") {
		t.Errorf("stderr:\n%s", stderr)
	}
}

// TestTokensAreNotKept: of an allocation that is kept the tokens go, wherever
// the job wanted them, and what a task has put in their place stays.
func TestTokensAreNotKept(t *testing.T) {
	group := jobfile.Group{Tasks: []jobfile.Task{{Name: "web", Identities: []jobfile.Identity{
		{File: "local/a"}, {File: "../alloc/data/b"}, {File: "secrets/nomad_c.jwt"}, {}, {File: "local/dir"}, {File: "local/link"}, {File: "gone"},
	}}}}
	dir := t.TempDir()
	write := func(names ...string) {
		for _, name := range names {
			file := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	own := []string{"web/local/other", "web/local/dir/x", "elsewhere/c"}
	write("web/local/a", "web/local/.a.new", "alloc/data/b")
	write(own...)
	if err := os.Symlink("../../elsewhere/c", filepath.Join(dir, "web/local/link")); err != nil {
		t.Fatal(err)
	}
	if err := removeTokens(dir, tokenFiles(group)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web/local/a", "web/local/.a.new", "alloc/data/b"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range append(own, "web/local/link") {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := removeTokens(filepath.Join(dir, "absent"), tokenFiles(group)); err != nil {
		t.Error(err)
	}
}

// verified is what a token says, when the key set knows who signed it.
func verified(t *testing.T, jwks, token string) jwt.Claims {
	t.Helper()
	info, err := os.Stat(jwks)
	text, err2 := os.ReadFile(jwks)
	var keys jose.JSONWebKeySet
	if err := errors.Join(err, err2, json.Unmarshal(text, &keys)); err != nil || info.Mode() != 0o644 {
		t.Fatalf("%v, %v", err, info)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	var c jwt.Claims
	if err := parsed.Claims(keys, &c); err != nil {
		t.Error(err)
	}
	return c
}

// TestK25TokensThroughThePlugin: without a word of job and operator the tokens
// are neither in the sandbox's environment nor in its files, and that is told.
func TestK25TokensThroughThePlugin(t *testing.T) {
	code, stdout, stderr := runPlugin(t, []string{"JOB"}, identityJob)
	if code != 0 || strings.Contains(stdout, "NOMAD_TOKEN") {
		t.Errorf("exit %d\nstdout:\n%s", code, stdout)
	}
	for _, want := range []string{
		"nobody believes them who was not given its public half: -identity-jwks FILE\n",
		"secrets folder holds files and is not mounted; mount_secrets = true",
		"Left out of the task's environment: NOMAD_TOKEN, NOMAD_TOKEN_my-api; expose_tokens = true",
	} {
		if strings.Count(stderr, want) != 1 {
			t.Errorf("not said once: %q\nstderr:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, "eyJ") {
		t.Errorf("stderr has a token:\n%s", stderr)
	}
}

// TestKeySetFile: it takes the place of a file and of nothing else, and nothing
// is started without it.
func TestKeySetFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{link, dir, filepath.Join(dir, "none", "x")} {
		c := runCall(t, "one.nomad.hcl", []string{"-identity-jwks", file}, nil)
		if c.code != exitFailed || c.err == nil || !strings.HasPrefix(c.err.Error(), "-identity-jwks: ") || len(c.dirs) > 0 || len(c.left) > 0 {
			t.Errorf("%s: exit %d, %v, %v, %v", file, c.code, c.err, c.dirs, c.left)
		}
	}
	if all := listed(t, dir); len(all) != 1 {
		t.Errorf("left: %v", all)
	}
}

// unheard is a backend whose tasks take no signals.
type unheard struct{ *pretended }

func (unheard) signal(_ context.Context, task, signal string) error {
	return errors.New(signal + " to " + task + ": not now")
}

// TestRenewedToken: a task is told of a new token as its job wants it; one that
// can't be told has failed, as with a client.
func TestRenewedToken(t *testing.T) {
	for mode, c := range map[string]struct {
		deaf  bool
		lives int
		want  string
	}{
		"noop":    {lives: 1},
		"restart": {lives: 2, want: `web * Restart signaled: identity "api" has a new token`},
		"signal":  {lives: 1},
		"signal ": {deaf: true, lives: 1, want: `web * Failed: identity "api" has a new token, of which the task can't be told: SIGHUP to web: not now`},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &watched{}
			r := &run{out: newPrinter(out, out, []string{"web"}), back: &pretended{}}
			if c.deaf {
				r.back = unheard{}
			}
			lives := 0
			task := jobfile.Task{Name: "web", Restart: jobfile.Restart{Attempts: 1, Interval: time.Hour, Delay: time.Second, Mode: "fail"}}
			group := supervise.New(t.Context(), supervise.Options{
				Tasks: []jobfile.Task{task}, Batch: true, Recoverable: func(error) bool { return true },
				Start: func(context.Context, jobfile.Task) (supervise.Process, error) {
					lives++
					return &pretendedProcess{ended: make(chan int, 1)}, nil
				},
				Event: func(task, text string) { r.out.event(task, "%s", text) },
			})
			go func() {
				time.Sleep(time.Minute)
				r.renewed(t.Context(), group, "web", jobfile.Identity{Name: "api", ChangeMode: strings.TrimSpace(mode), ChangeSignal: "SIGHUP"})
				time.Sleep(time.Minute)
				group.Stop("interrupted")
			}()
			group.Run()
			time.Sleep(time.Hour) // let what was left behind come to its end
			if lives != c.lives || !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "token") {
				t.Errorf("%s: %d lives\n%s", mode, lives, out.String())
			}
		})
	}
}
