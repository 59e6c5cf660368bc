package jobfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// TestShapesGiven: what one machine cannot have it may be given; then nothing is
// left to refuse, and the job has it.
func TestShapesGiven(t *testing.T) {
	read := func(name string, o jobfile.Options) *jobfile.Job {
		t.Helper()
		job, err := jobfile.ParseFile(filepath.Join("testdata", "shapes", name+".nomad.hcl"), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return job
	}
	mount := read("01-web-template-bind", jobfile.Options{HostVolumes: map[string]string{"shape-state": "/srv/state"}}).Groups[0].Tasks[0].Mounts
	if len(mount) != 1 || mount[0] != (jobfile.VolumeMount{Volume: "state", HostPath: "/srv/state", Destination: "/var/lib/app"}) {
		t.Errorf("01: %+v", mount)
	}
	job := read("04-dispatch-batch", jobfile.Options{Dispatch: &jobfile.Dispatch{Payload: []byte("p"), Meta: map[string]string{"backup_name": "b"}}})
	task := job.Groups[0].Tasks[0]
	if table, ok := task.Meta["table"]; !job.Dispatched || string(job.Payload) != "p" || task.PayloadFile != "input.json" || task.Meta["backup_name"] != "b" || table != "" || !ok {
		t.Errorf("04: %+v", task)
	}
	read("12-database-script-check", jobfile.Options{NomadVars: jobfile.NomadVars{"": {"nomad/jobs/shape-12": {"password": "x"}}}})
}

// TestVolumeReadOnly: a mount is writable where neither it nor its volume says
// otherwise, and per_alloc asks for the first allocation's own.
func TestVolumeReadOnly(t *testing.T) {
	for text, want := range map[string]bool{"": false, "volume": true, "mount": true, "volume mount": true} {
		line := func(of string) string { return fmt.Sprintf("read_only = %t\n", strings.Contains(text, of)) }
		src := "job \"j\" {\n group \"g\" {\n volume \"v\" {\n type = \"host\"\n source = \"s\"\n per_alloc = true\n" + line("volume") + "}\n" +
			"task \"t\" {\n driver = \"wardyn\"\n config {\n image = \"x\"\n }\n volume_mount {\n volume = \"v\"\n destination = \"/d\"\n" + line("mount") + "}\n }\n }\n}\n"
		job, err := jobfile.Parse("j.hcl", []byte(src), jobfile.Options{HostVolumes: map[string]string{"s[0]": "/srv"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := job.Groups[0].Tasks[0].Mounts; len(got) != 1 || got[0].ReadOnly != want || got[0].HostPath != "/srv" {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestDispatch: a dispatch is held against the parameterized block as a server
// does it.
func TestDispatch(t *testing.T) {
	big := []byte(strings.Repeat("x", jobfile.MaxPayload+1))
	for name, c := range map[string]struct {
		head  string
		given *jobfile.Dispatch
		wants []string // nil: it is run
	}{
		"nothing wanted":    {"parameterized {}", nil, nil},
		"largest payload":   {"parameterized {}", &jobfile.Dispatch{Payload: big[1:]}, nil},
		"too large":         {"parameterized {}", &jobfile.Dispatch{Payload: big}, []string{"more than the 16384 bytes"}},
		"forbidden":         {`parameterized { payload = "forbidden" }`, &jobfile.Dispatch{Payload: big[:1]}, []string{`payload = "forbidden"`}},
		"forbidden, none":   {`parameterized { payload = "forbidden" }`, &jobfile.Dispatch{}, nil},
		"required":          {`parameterized { payload = "required" }`, &jobfile.Dispatch{}, []string{`payload = "required"`, "-payload FILE"}},
		"meta missing":      {`parameterized { meta_required = ["a", "b"] }`, &jobfile.Dispatch{Meta: map[string]string{"a": ""}}, []string{`"b" is not given`}},
		"meta unknown":      {`parameterized { meta_optional = ["table"] }`, &jobfile.Dispatch{Meta: map[string]string{"tabel": ""}}, []string{"-meta tabel", `did you mean "table"?`}},
		"in both":           {"parameterized {\n meta_required = [\"a\"]\n meta_optional = [\"a\"]\n }", &jobfile.Dispatch{Meta: map[string]string{"a": ""}}, []string{`"a" is in meta_required too`}},
		"payload word":      {`parameterized { payload = "maybe" }`, nil, []string{`"maybe" is none of optional, required, forbidden`}},
		"two blocks":        {"parameterized {}\n parameterized {}", nil, []string{"a second parameterized block"}},
		"not parameterized": {"", &jobfile.Dispatch{Meta: map[string]string{"a": ""}}, []string{"it has no parameterized block"}},
	} {
		src := "job \"j\" {\n type = \"batch\"\n " + c.head + "\n group \"g\" {\n task \"t\" {\n driver = \"wardyn\"\n config {\n image = \"x\"\n }\n }\n }\n}\n"
		_, err := jobfile.Parse("j.hcl", []byte(src), jobfile.Options{Dispatch: c.given})
		if c.wants == nil && err != nil || c.wants != nil && err == nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.wants {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, err, want)
			}
		}
	}
}

// TestVolumesAndPayloads: what is wrong with them is said with its line, and
// what a template asks for is known before it is rendered.
func TestVolumesAndPayloads(t *testing.T) {
	for name, c := range map[string]struct{ group, task, want string }{
		"no such volume":  {"", "volume_mount {\n volume = \"v\"\n destination = \"/v\"\n }", "the group has no volume \"v\""},
		"no volume":       {"", "volume_mount {\n destination = \"/v\"\n }", "volume is missing"},
		"propagation":     {"volume \"v\" {\n type = \"host\"\n source = \"s\"\n }", "volume_mount {\n volume = \"v\"\n propagation_mode = \"both\"\n }", `"both" is none of`},
		"no type":         {"volume \"v\" {\n source = \"s\"\n }", "", "type is missing"},
		"no source":       {"volume \"v\" {\n type = \"host\"\n }", "", "source is missing"},
		"mount options":   {"volume \"v\" {\n type = \"host\"\n source = \"s\"\n mount_options {}\n }", "", "mount_options are for volumes of type csi"},
		"payload outside": {"", "dispatch_payload {\n file = \"../../../x\"\n }", "outside the allocation's directory"},
		"no variable":     {"", "template {\n destination = \"x\"\n data = \"{{ with nomadVar \\\"p\\\" }}{{ .k }}{{ end }}\"\n }", `there is no Nomad variable "p"; run sets it with -nomad-var p:KEY=VALUE`},
		"perhaps":         {"", "template {\n destination = \"x\"\n data = \"{{ if nomadVarExists \\\"p\\\" }}{{ nomadVar \\\"p\\\" }}{{ end }}\"\n }", ""},
		"late":            {"", "template {\n destination = \"x\"\n data = \"{{ nomadVar (env \\\"P\\\") }}\"\n }", ""},
	} {
		src := "job \"j\" {\n group \"g\" {\n" + c.group + "\n task \"t\" {\n driver = \"wardyn\"\n config {\n image = \"x\"\n }\n" + c.task + "\n }\n }\n}\n"
		_, err := jobfile.Parse("j.hcl", []byte(src), jobfile.Options{HostVolumes: map[string]string{"s": "/s"}})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestNomadVarFiles: a file that describes no variable is told of with its line.
func TestNomadVarFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, src, want string }{
		"no path":       {"a.hcl", "items {\n a = \"b\"\n}\n", "path"},
		"stray name":    {"b.hcl", "path = \"p\"\npaht = \"q\"\nitems {}\n", "b.hcl:2: "},
		"no items":      {"c.hcl", "path = \"p\"\nitems {}\n", "there are no items"},
		"item is list":  {"d.hcl", "path = \"p\"\nitems {\n a = [1]\n}\n", "d.hcl:3: "},
		"item is count": {"e.json", `{"Path": "p", "Items": {"a": 1}}`, "number"},
		"no json":       {"f.json", `path = "p"`, "f.json: invalid character"},
		"bad path":      {"g.json", `{"Path": "p q", "Items": {"a": "b"}}`, `path "p q"`},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.src), 0o600); err != nil {
			t.Fatal(err)
		}
		err := jobfile.NomadVars{}.ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if err := (jobfile.NomadVars{}).ReadFile(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}
