package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// identityScript tells what a task sees of its identities: before and after a
// renewal, and after one that went by while it was frozen.
const identityScript = `
f=/secrets/nomad_api.jwt
ls -ln $f; echo "user $(id -u)"; echo "hook $WEBHOOK_SECRET"; env | sed -n 's/^NOMAD_TOKEN/leak &/p'
echo "default $(cat /secrets/nomad_token)"
t=$(cat $f); echo "first $t"
n=0; while [ "$(cat $f)" = "$t" ] && [ $n -lt 100 ]; do sleep 1; n=$((n+1)); done
echo "second $(cat $f)"
touch /local/freeze
while [ ! -e /local/thawed ]; do sleep 1; done
echo "third $(cat $f)"
`

// pools are for two classes at once.
var pools = map[string]string{"CC1": pool, "CC2": "10.214.252.0/22"}

// identity: the files of a workload identity are the task's to read and nobody
// else's, follow their renewal, also one that a frozen sandbox sleeps through,
// and are signed with the key that the run tells.
func identity(t *testing.T, class string) {
	endpoint, allocs, jwks := testenv.Engine(t), t.TempDir(), filepath.Join(t.TempDir(), "jwks.json")
	config := filepath.Join(t.TempDir(), "plugin.hcl")
	text := fmt.Sprintf("endpoint = %q\negress_subnet_pool = %q\nallow_secrets_dir = true\n", endpoint, pools[class])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	image := testenv.Image(t)
	file := shape(t, "13-workload-identity", image,
		`type = "service"`, `type = "batch"`,
		`group "bot" {`, "group \"bot\" {\nrestart {\nattempts = 0\n}",
		`driver = "wardyn"`, "driver = \"wardyn\"\nuser = \"daemon\"",
		`image = "`+image+`"`, fmt.Sprintf("image = %q\nconfinement = %q\ncommand = \"sh\"\nargs = [\"-c\", %q]\nmount_secrets = true", image, class, identityScript),
		`"1h"`, `"15s"`,
	)
	frozen := make(chan error, 1)
	ctx, over := context.WithCancel(t.Context())
	defer over()
	go func() { frozen <- freeze(ctx, testenv.Client(t, endpoint), allocs) }()
	r := command(t, "run", "-plugin-config", config, "-alloc-dir", allocs, "-identity-jwks", jwks, "-nomad-var", "nomad/jobs/shape-13:webhook=hook", file)
	over()
	if err := <-frozen; err != nil {
		t.Error(err)
	}
	r.wants(t, "stdout", r.stdout, "-rw-------", " 1 1 ", "user 1", "hook hook")
	r.wants(t, "stderr", r.stderr, "its public half is in "+jwks, "Left out of the task's environment: NOMAD_TOKEN;")
	if r.code != 0 || strings.Contains(r.stdout, "leak") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	seen := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		words := strings.Fields(line)
		if len(words) == 4 && strings.Count(words[3], ".") == 2 {
			seen[words[2]] = words[3]
		}
	}
	ids := map[string]bool{}
	for name, subject := range map[string]string{"default": ":default", "first": ":api", "second": ":api", "third": ":api"} {
		c := claims(t, jwks, seen[name])
		if !strings.HasPrefix(c.Subject, "global:default:shape-13:bot:bot") || !strings.HasSuffix(c.Subject, subject) || ids[c.ID] {
			t.Errorf("%s: %+v", name, c)
		}
		ids[c.ID] = true
	}
}

// freeze waits until the task of the one allocation asks for it, and freezes its
// sandbox as suspend does, until its token has been renewed.
func freeze(ctx context.Context, engine *client.Client, allocs string) error {
	await := func(what string, ok func() bool) error {
		for end := time.Now().Add(testenv.Patience); !ok(); time.Sleep(50 * time.Millisecond) {
			if ctx.Err() != nil || time.Now().After(end) {
				return fmt.Errorf("not seen: %s", what)
			}
		}
		return nil
	}
	var task string
	if err := await("a task that wants to be frozen", func() bool {
		found, _ := filepath.Glob(filepath.Join(allocs, "*", "bot", "local", "freeze"))
		if len(found) == 1 {
			task = filepath.Dir(filepath.Dir(found[0]))
		}
		return task != ""
	}); err != nil {
		return err
	}
	session := filepath.Base(filepath.Dir(task)) + ".bot"
	list, err := engine.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "wardyn.session="+session), filters.Arg("name", "wardyn_agent_"))})
	if err != nil || len(list) != 1 {
		return fmt.Errorf("the sandbox of %s: %v, %v", session, list, err)
	}
	if err := engine.ContainerPause(ctx, list[0].ID); err != nil {
		return err
	}
	token := filepath.Join(task, "secrets", "nomad_api.jwt")
	before, err := os.ReadFile(token)
	return errors.Join(err, await("a renewal while it is frozen", func() bool {
		now, err := os.ReadFile(token)
		return err == nil && string(now) != string(before)
	}), engine.ContainerUnpause(ctx, list[0].ID), os.WriteFile(filepath.Join(task, "local", "thawed"), nil, 0o644))
}

// claims are what a token says, if the key set verifies it.
func claims(t *testing.T, jwks, token string) jwt.Claims {
	t.Helper()
	text, err := os.ReadFile(jwks)
	var keys jose.JSONWebKeySet
	if err := errors.Join(err, json.Unmarshal(text, &keys)); err != nil {
		t.Fatal(err)
	}
	var c jwt.Claims
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err == nil {
		err = parsed.Claims(keys, &c)
	}
	if err != nil {
		t.Errorf("token %q: %v", token, err)
	}
	return c
}
