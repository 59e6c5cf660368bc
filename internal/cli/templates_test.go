package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

func testRenderer(t *testing.T) renderer {
	t.Helper()
	dir := t.TempDir()
	r := renderer{
		taskDir: filepath.Join(dir, "web"), shared: filepath.Join(dir, "alloc"),
		env: map[string]string{
			"NOMAD_ALLOC_ID": "a-1", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets", "NOMAD_ALLOC_DIR": "/alloc",
		},
		facts: map[string]string{"node.unique.name": "n1"},
	}
	for _, d := range []string{"web/local", "web/secrets", "alloc/data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func template(destination, data string) jobfile.Template {
	return jobfile.Template{Destination: destination, Data: data, Perms: 0o644, Left: "{{", Right: "}}"}
}

func TestTemplatesAreWritten(t *testing.T) {
	r := testRenderer(t)
	for destination, want := range map[string]string{
		"local/a":                     "web/local/a",
		"/local/b":                    "web/local/b",
		"deep/er/c":                   "web/deep/er/c",
		"${NOMAD_TASK_DIR}/d":         "web/local/d",
		"${NOMAD_SECRETS_DIR}/e":      "web/secrets/e",
		"${NOMAD_ALLOC_DIR}/data/f":   "alloc/data/f",
		"../alloc/g":                  "alloc/g",
		"local/${node.unique.name}.h": "web/local/n1.h",
	} {
		if _, err := r.render([]jobfile.Template{template(destination, `{{ env "NOMAD_ALLOC_ID" }} {{ env "node.unique.name" }}`)}); err != nil {
			t.Errorf("%s: %v", destination, err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(r.taskDir), want))
		if err != nil || string(b) != "a-1 n1" {
			t.Errorf("%s: %q, %v", destination, b, err)
		}
	}
	for _, destination := range []string{"../x", "../../x", "../other/local/x", "../allocx/y", "local/../../x", ""} {
		if _, err := r.render([]jobfile.Template{template(destination, "x")}); err == nil {
			t.Errorf("destination %q is taken", destination)
		}
	}
}

func TestTemplatePermissions(t *testing.T) {
	r := testRenderer(t)
	tmpl := template("local/run.sh", "x")
	tmpl.Perms = 0o755
	uid, gid := os.Getuid(), os.Getgid()
	tmpl.UID, tmpl.GID = &uid, &gid
	if os.Getuid() == 0 {
		uid, gid = 12, 34
	}
	if _, err := r.render([]jobfile.Template{tmpl}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(r.taskDir, "local/run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o755 || int(owner.Uid) != uid || int(owner.Gid) != gid {
		t.Errorf("mode %v, owner %d:%d", info.Mode(), owner.Uid, owner.Gid)
	}
}

// TestTemplatesDoNotFollowLinks: what a task left in its directory leads
// neither out of it nor through the file itself.
func TestTemplatesDoNotFollowLinks(t *testing.T) {
	r := testRenderer(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"local/file": outside, "local/folder": filepath.Dir(outside)} {
		if err := os.Symlink(to, filepath.Join(r.taskDir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.render([]jobfile.Template{template("local/file", "mine")}); err != nil {
		t.Errorf("a link in the file's place: %v", err)
	}
	if _, err := r.render([]jobfile.Template{template("local/folder/outside", "mine")}); err == nil {
		t.Error("a link out of the directory was followed")
	}
	if b, _ := os.ReadFile(outside); string(b) != "untouched" {
		t.Errorf("the file outside now says %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(r.taskDir, "local/file")); string(b) != "mine" {
		t.Errorf("the file inside says %q", b)
	}
}

func TestEnvTemplates(t *testing.T) {
	r := testRenderer(t)
	first, second := template("secrets/a", "# note\nA=1\nexport B=\"two words\"\nC='{{ env \"NOMAD_ALLOC_ID\" }}'\n"), template("secrets/b", "A=2\n")
	first.Env, second.Env = true, true
	got, err := r.render([]jobfile.Template{first, template("local/no", "X=1"), second})
	if want := map[string]string{"A": "2", "B": "two words", "C": "a-1"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	first.Data = "no assignment"
	if _, err := r.render([]jobfile.Template{first}); err == nil || !strings.Contains(err.Error(), "KEY=value") {
		t.Errorf("bad lines: %v", err)
	}
}
