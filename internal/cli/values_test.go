package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestValueFlags: validate takes variables from files, the environment and its
// own arguments as Nomad's commands do.
func TestValueFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	job := writeJob(t, `image = var.v`)
	bad, good := file("bad.vars", `v = "x y"`), file("good.json", `{"v": "present:1"}`)
	stray := file("stray.vars", `w = "1"`)
	for name, c := range map[string]struct {
		args []string
		env  string
		code int
		says string
	}{
		"default":           {nil, "", exitOK, "ok"},
		"file":              {[]string{"-var-file", bad}, "", exitFailed, `image = "x y"`},
		"two files":         {[]string{"-var-file", bad, "-var-file=" + good}, "", exitOK, "ok"},
		"over a file":       {[]string{"-var", "v=present:1", "-var-file", bad}, "", exitOK, "ok"},
		"environment":       {nil, "x e", exitFailed, `image = "x e"`},
		"over the others":   {[]string{"-var-file", good}, "x e", exitOK, "ok"},
		"stray":             {[]string{"-var-file", stray}, "", exitFailed, "stray.vars:1: the job file declares no variable \"w\""},
		"stray, not strict": {[]string{"-hcl2-strict=false", "-var-file", stray}, "", exitOK, "ok"},
		"absent":            {[]string{"-var-file", filepath.Join(dir, "absent")}, "", exitUsage, "no such file"},
		"empty":             {[]string{"-var-file", ""}, "", exitUsage, "want a file"},
	} {
		var stdout, stderr strings.Builder
		e := Env{
			Args: append(append([]string{"validate", "-offline"}, c.args...), job), Stdout: &stdout, Stderr: &stderr,
			LookupEnv: func(key string) (string, bool) { return c.env, key == "NOMAD_VAR_v" && c.env != "" },
		}
		if code := Main(t.Context(), e); code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.says) {
			t.Errorf("%s: exit %d\n%s%s", name, code, stdout.String(), stderr.String())
		}
	}
}
