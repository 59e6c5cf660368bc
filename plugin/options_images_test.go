package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
)

// taskOf is a task with a config as a client's decoder leaves it.
func taskOf(t *testing.T, config map[string]any) (*driverpb.TaskConfig, TaskConfig) {
	t.Helper()
	if _, ok := config["image"]; !ok {
		config["image"] = "busybox:1"
	}
	b, err := hclconf.Msgpack(taskSpec(), config, nil)
	if err != nil {
		t.Fatalf("%v: %v", config, err)
	}
	var c TaskConfig
	if err := msgpack.Decode(b, &c); err != nil {
		t.Fatalf("%v: %v", config, err)
	}
	return &driverpb.TaskConfig{
		Id: allocID + "/t/0badcafe", Name: "t", AllocId: allocID, JobId: "j", Namespace: "default", AllocDir: "/nomad/alloc/" + allocID,
	}, c
}

// planOf judges and translates a config.
func planOf(t *testing.T, config map[string]any, h HostConfig) (plan, error) {
	t.Helper()
	tc, c := taskOf(t, config)
	return planTask(tc, c, h, node)
}

// hostOf is an operator's config, read.
func hostOf(t *testing.T, block map[string]any) HostConfig {
	t.Helper()
	h, err := hostConfig(operator(t, block))
	if err != nil {
		t.Fatalf("%v: %v", block, err)
	}
	return h
}

// Operators' bug 23: registries are told from names by the reference library.
func TestBug23ImageNamesAndRules(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	rules := map[string]any{"images": map[string]any{
		"allow": []any{"registry.example.org/acme/*", "busybox", "localhost:5000/x", "quay.io/*/tool:2", "quay.io/pinned" + digest},
		"deny":  []any{"registry.example.org/acme/secret*", "registry.example.org/acme/old" + digest, "registry.example.org/acme/bad:1"},
	}}
	for _, c := range []struct {
		image string
		rules map[string]any
		want  string // "" is taken
	}{
		{"busybox", nil, ""},
		{"registry.example.org:5000/a/b/c", nil, ""},
		{"localhost/x:1" + digest, nil, ""},
		{"", nil, "missing"},
		{"a b", nil, "no blanks"},
		{"acme/Upper", nil, "no image name"},
		{"busybox:1:2", nil, "no image name"},
		{"sha256:" + strings.Repeat("a", 64), nil, "by its id"},
		{strings.Repeat("a", 64), nil, "no image name"},
		{"docker://busybox", nil, "without a transport"},
		{"oci-archive:/x.tar", nil, "no image name"},
		{"wardyn-snap/team/x:1", nil, "another namespace"},
		{"wardyn-snap/default/x:1", nil, ""},
		{"wardyn-snap/x:1", nil, "belongs to the driver"},
		{"docker.io/wardyn-snap/team/x:1", nil, "belongs to the driver"},
		{"index.docker.io/library/rainier-env:1", nil, "belongs to the driver"},
		{"wardyn-snapper:1", nil, ""},

		{"busybox:1.36", rules, ""},
		{"docker.io/library/busybox", rules, ""},
		{"evil/busybox", rules, "images.allow"},
		{"registry.example.org/acme/agent:1", rules, ""},
		{"registry.example.org/acme/secret-agent:1", rules, "images.deny"},
		{"registry.example.org.evil.io/acme/agent:1", rules, "images.allow"},
		{"localhost:5000/x" + digest, rules, ""},
		{"localhost/x", rules, "images.allow"},
		{"quay.io/a/b/tool:2", rules, ""},
		{"quay.io/a/b/tool:2" + digest, rules, "images.allow"}, // the tag would mean nothing
		{"registry.example.org/acme/agent:1" + digest, rules, ""},
		{"quay.io/pinned" + digest, rules, ""},
		{"quay.io/pinned:9" + digest, rules, ""},
		{"quay.io/pinned:9", rules, "images.allow"},
		{"registry.example.org/acme/old" + digest, rules, "images.deny"},
		{"registry.example.org/acme/old:1" + digest, rules, "images.deny"},
		{"registry.example.org/acme/bad:1" + digest, rules, "images.deny"},
		{"quay.io/a/b/tool:3", rules, "images.allow"},
		{"busybox:1", map[string]any{"images": map[string]any{"digest_only": true}}, "@sha256:"},
		{"busybox" + digest, map[string]any{"images": map[string]any{"digest_only": true}}, ""},
	} {
		h := HostConfig{}
		if c.rules != nil {
			h = hostOf(t, c.rules)
		}
		_, err := planOf(t, map[string]any{"image": c.image}, h)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.image, err, c.want)
		}
	}
}

// Every spelling of the auth block, and what is wrong with one.
func TestAuthSpellings(t *testing.T) {
	block := map[string]any{"username": "u", "password": "p", "server_address": "r.example.org"}
	for name, v := range map[string]any{"block": []any{block}, "map": block, "two blocks": []any{
		map[string]any{"username": "u", "server_address": "r.example.org"}, map[string]any{"password": "p"},
	}} {
		p, err := planOf(t, map[string]any{"auth": v, "auth_soft_fail": "true", "force_pull": true, "image_pull_timeout": "45m"}, closedHost)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		src := p.Spec.Sandbox.Task.Image
		if a := src.Auth; a == nil || a.Username != "u" || a.Password != "p" || a.Server != "r.example.org" {
			t.Errorf("%s: the credentials are not what was written", name)
		}
		if !src.AuthSoftFail || !src.Always || src.Timeout != 45*time.Minute {
			t.Errorf("%s: %+v", name, src)
		}
	}
	for _, v := range []any{map[string]any{"username": "u"}, map[string]any{"username": "u", "password": "hunter2", "tls": true}, "hunter2"} {
		_, err := planOf(t, map[string]any{"auth": v}, closedHost)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	if p, err := planOf(t, map[string]any{"auth": nil}, closedHost); err != nil || p.Spec.Sandbox.Task.Image.Auth != nil {
		t.Errorf("no auth: %v", err)
	}
}

// Bug 19: the limit of a pull is what the job or the operator says, however
// long; a limit of the whole start does not cut it.
func TestBug19PullTimeouts(t *testing.T) {
	h := hostOf(t, map[string]any{"image_pull_timeout": "2h", "pull_activity_timeout": "10m"})
	p, err := planOf(t, map[string]any{}, h)
	if err != nil || p.Spec.Sandbox.Task.Image.Timeout != 2*time.Hour || h.Images.PullActivity != 10*time.Minute {
		t.Errorf("%+v, %v", p.Spec.Sandbox.Task, err)
	}
	p, err = planOf(t, map[string]any{"image_pull_timeout": "6h"}, h)
	if err != nil || p.Spec.Sandbox.Task.Image.Timeout != 6*time.Hour {
		t.Errorf("%v, %v", p.Spec.Sandbox.Task.Image.Timeout, err)
	}
	for _, bad := range []string{"5", "-1m", "0s", "48h", "soon"} {
		if _, err := planOf(t, map[string]any{"image_pull_timeout": bad}, h); err == nil || !strings.Contains(err.Error(), "image_pull_timeout") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestK30LoadRules(t *testing.T) {
	for text, want := range map[string]string{
		"image.tar": "local/image.tar", "local/a/b.tar": "local/a/b.tar", "../alloc/x.tar": "alloc/x.tar", "alloc/x.tar": "alloc/x.tar",
		"/etc/x.tar": "!path of the host", "../../x.tar": "!leaves", "secrets/../../x": "!", "secrets/x.tar": "local/secrets/x.tar",
	} {
		p, err := planOf(t, map[string]any{"load": text}, closedHost)
		switch words, bad := strings.CutPrefix(want, "!"); {
		case bad && (err == nil || !strings.Contains(err.Error(), words)):
			t.Errorf("%s: %v, want %q", text, err, words)
		case !bad && (err != nil || p.Load == nil || p.Load.String() != want):
			t.Errorf("%s: %v, %v", text, p.Load, err)
		}
	}
	h := hostOf(t, map[string]any{"images": map[string]any{"allow": []any{"*"}}})
	if _, err := planOf(t, map[string]any{"load": "x.tar"}, h); err == nil || !strings.Contains(err.Error(), "images.allow_load") {
		t.Errorf("rules for names and an archive: %v", err)
	}
	h.Images.AllowLoad = true
	if _, err := planOf(t, map[string]any{"load": "x.tar"}, h); err != nil {
		t.Error(err)
	}
}

// J: a part of a block opens nothing that the whole would not.
func TestBugJPartialImageBlocks(t *testing.T) {
	for name, block := range map[string]any{"empty": map[string]any{}, "null": nil, "partial": map[string]any{"digest_only": false}} {
		h := hostOf(t, map[string]any{"images": block, "gc": absentAs(name), "auth": map[string]any{}})
		if h.Images.TrustPresent || h.Images.AllowLoad || h.Images.KeepUnused != defaultImageDelay || h.Images.AuthFile != "" {
			t.Errorf("%s: %+v", name, h.Images)
		}
	}
	if h := hostOf(t, map[string]any{"gc": map[string]any{"image": false, "image_delay": "1h"}}); h.Images.KeepUnused != 0 {
		t.Errorf("gc.image = false: %v", h.Images.KeepUnused)
	}
	for _, c := range []struct {
		block map[string]any
		words string
	}{
		{map[string]any{"images": map[string]any{"allow": []any{"Bad Name"}}}, "images.allow"},
		{map[string]any{"images": map[string]any{"deny": []any{""}}}, "images.deny"},
		{map[string]any{"auth": map[string]any{"config": "x.json"}}, "auth.config"},
		{map[string]any{"auth": map[string]any{"helper": "../../evil"}}, "auth.helper"},
		{map[string]any{"gc": map[string]any{"image_delay": "x"}}, "gc.image_delay"},
		{map[string]any{"pull_activity_timeout": "0"}, "pull_activity_timeout"},
	} {
		if _, err := hostConfig(operator(t, c.block)); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v", c.block, err)
		}
	}
}

func absentAs(name string) any {
	if name == "null" {
		return nil
	}
	return map[string]any{}
}
