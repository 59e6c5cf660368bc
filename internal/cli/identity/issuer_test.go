package identity

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

var workload = Workload{Region: "eu", Namespace: "team", Job: "shape-13", Group: "bot", Alloc: "a-1"}

// TestClaims: what a token says is what a server would have it say.
func TestClaims(t *testing.T) {
	now := time.Unix(1_700_000_000, 5)
	for name, c := range map[string]struct {
		id   jobfile.Identity
		want string
	}{
		"default": {jobfile.Identity{Name: "default", Audience: []string{"nomadproject.io"}},
			`{"aud":"nomadproject.io","iat":1700000000,"jti":"x","nbf":1700000000,"nomad_allocation_id":"a-1","nomad_job_id":"shape-13","nomad_namespace":"team","nomad_task":"t","sub":"eu:team:shape-13:bot:t:default"}`},
		"one that ends": {jobfile.Identity{Name: "api", Audience: []string{"a", "b"}, TTL: time.Hour},
			`{"aud":["a","b"],"exp":1700003600,"iat":1700000000,"jti":"x","nbf":1700000000,"nomad_allocation_id":"a-1","nomad_job_id":"shape-13","nomad_namespace":"team","nomad_task":"t","sub":"eu:team:shape-13:bot:t:api"}`},
		"for anybody": {jobfile.Identity{Name: "any"},
			`{"iat":1700000000,"jti":"x","nbf":1700000000,"nomad_allocation_id":"a-1","nomad_job_id":"shape-13","nomad_namespace":"team","nomad_task":"t","sub":"eu:team:shape-13:bot:t:any"}`},
	} {
		text, err := json.Marshal(workload.claim("t", c.id, now, "x"))
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(c.want), &want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// tasks are one task with every kind of identity, and one with none.
func tasks() []jobfile.Task {
	return []jobfile.Task{
		{Name: "t", Identities: []jobfile.Identity{
			{Name: "default", Audience: []string{"nomadproject.io"}, Env: true, File: "secrets/nomad_token"},
			{Name: "api", Audience: []string{"api"}, File: "secrets/nomad_api.jwt", TTL: time.Minute, ChangeMode: "noop"},
			{Name: "slow", Env: true, File: "../alloc/data/slow.jwt", TTL: time.Hour, ChangeMode: "restart"},
		}},
		{Name: "other"},
	}
}

// place is a task's directories as a client makes them.
func place(t *testing.T) Place {
	t.Helper()
	dir := t.TempDir()
	p := Place{Task: filepath.Join(dir, "t"), Shared: filepath.Join(dir, "alloc")}
	for _, d := range []string{"t/secrets", "t/local", "alloc/data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTokensVerify: with the key set, and nothing else, a service can tell that a
// token is one of this run's.
func TestTokensVerify(t *testing.T) {
	i, err := New(workload, tasks())
	if err != nil {
		t.Fatal(err)
	}
	p := place(t)
	if err := i.Begin("t", p); err != nil {
		t.Fatal(err)
	}
	text, err := i.KeySet()
	var keys jose.JSONWebKeySet
	if err := errors.Join(err, json.Unmarshal(text, &keys)); err != nil || len(keys.Keys) != 1 || !keys.Keys[0].IsPublic() || keys.Keys[0].Use != "sig" {
		t.Fatalf("%v: %s", err, text)
	}
	env := i.Env("t")
	if got := slices.Sorted(maps.Keys(env)); !slices.Equal(got, []string{"NOMAD_TOKEN", "NOMAD_TOKEN_slow"}) || len(i.Env("other")) > 0 {
		t.Errorf("the environment has %q", got)
	}
	for file, want := range map[string]struct{ name, env string }{
		"t/secrets/nomad_token": {"default", "NOMAD_TOKEN"}, "t/secrets/nomad_api.jwt": {"api", ""}, "alloc/data/slow.jwt": {"slow", "NOMAD_TOKEN_slow"},
	} {
		token := read(t, filepath.Join(filepath.Dir(p.Task), file))
		if want.env != "" && env[want.env] != token {
			t.Errorf("%s and %s differ", file, want.env)
		}
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil || parsed.Headers[0].KeyID != keys.Keys[0].KeyID || parsed.Headers[0].ExtraHeaders["typ"] != "JWT" {
			t.Fatalf("%s: %v: %+v", file, err, parsed)
		}
		var got claims
		if err := parsed.Claims(keys, &got); err != nil || !strings.HasSuffix(got.Subject, ":t:"+want.name) || got.Task != "t" {
			t.Errorf("%s: %v: %+v", file, err, got)
		}
		if stranger, err := New(workload, nil); err != nil {
			t.Fatal(err)
		} else if parsed.Claims(stranger.signer.public, &got) == nil {
			t.Errorf("%s is signed with another run's key", file)
		}
	}
}
