package cli

import (
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// givenBy parses the flags.
func givenBy(e Env, args ...string) (jobfile.Options, error) {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	g := givenFlags{}
	g.bind(fs)
	if err := fs.Parse(args); err != nil {
		return jobfile.Options{}, err
	}
	return g.options(e)
}

// TestGivenFlags: what a cluster would give a job comes from the command line.
func TestGivenFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e := Env{Stdin: strings.NewReader("from stdin")}
	o, err := givenBy(e, "-meta", "a=1=2", "-payload", "-", "-host-volume", "v="+dir,
		"-nomad-var", "p/q:k=v:w=x", "-nomad-var=p/q@other:k=o", "-nomad-var-file", file("a.hcl", "path = \"p/q\"\nitems {\n k = \"no\"\n l = \"file\"\n}\n"),
		"-nomad-var-file", file("b.json", `{"Namespace": "third", "Path": "z", "CreateIndex": 7, "Items": {"m": "n"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := o.Dispatch; d == nil || string(d.Payload) != "from stdin" || !maps.Equal(d.Meta, map[string]string{"a": "1=2"}) {
		t.Errorf("%+v", d)
	}
	if o.HostVolumes["v"] != dir || !maps.Equal(o.NomadVars[""]["p/q"], map[string]string{"k": "v:w=x", "l": "file"}) ||
		o.NomadVars["other"]["p/q"]["k"] != "o" || o.NomadVars["third"]["z"]["m"] != "n" {
		t.Errorf("%+v %+v", o.HostVolumes, o.NomadVars)
	}
	if o, err := givenBy(e); err != nil || o.Dispatch != nil {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	if o, err := givenBy(e, "-payload", file("big", strings.Repeat("x", 20<<10))); err != nil || len(o.Dispatch.Payload) != jobfile.MaxPayload+1 {
		t.Errorf("a long payload: %v", err)
	}
}

func TestGivenFlagsThatSayNothing(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("path = \"p\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want NAME=VALUE":           {"-meta", "a"},
		"-payload: open":            {"-payload", filepath.Join(dir, "absent")},
		"want NAME=DIR":             {"-host-volume", "v"},
		"no such file or directory": {"-host-volume", "v=" + filepath.Join(dir, "absent")},
		"is not a folder":           {"-host-volume", "v=" + plain},
		"want PATH:KEY=VALUE":       {"-nomad-var", "p=k"},
		`path "a b"`:                {"-nomad-var", "a b:k=v"},
		`key "1"`:                   {"-nomad-var", "a:1=v"},
		"-nomad-var-file: open":     {"-nomad-var-file", filepath.Join(dir, "absent")},
		"Missing items block":       {"-nomad-var-file", plain},
	} {
		if _, err := givenBy(Env{}, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
	}
}
