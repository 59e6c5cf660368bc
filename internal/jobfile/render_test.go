package jobfile_test

import (
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

func lookup(name string) (string, bool) {
	v, ok := map[string]string{
		"NOMAD_ALLOC_ID": "a-1", "EMPTY": "", "LIST": "a,b", "A B": "odd",
		"node.unique.id": "n-1", "attr.cpu.arch": "amd64", "meta.rack-1": "r",
	}[name]
	return v, ok
}

var inputs = jobfile.Inputs{
	Lookup: lookup, Namespace: "team",
	NomadVars: jobfile.NomadVars{
		"team":    {"nomad/jobs/a": {"user": "u", "password": "p"}, "nomad/jobs/b": {"k": "v"}},
		"":        {"own": {"k": "of the job's namespace"}},
		"default": {"x": {"k": "other"}},
	},
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"as it is ${NOMAD_ALLOC_ID} $HOME", "as it is ${NOMAD_ALLOC_ID} $HOME"},
		{`{{ env "NOMAD_ALLOC_ID" }}`, "a-1"},
		{`{{ env "node.unique.id" }}`, "n-1"},
		{`<{{ env "UNKNOWN" }}>`, "<>"},
		{`{{ envOrDefault "UNKNOWN" "d" }}{{ envOrDefault "EMPTY" "e" }}{{ envOrDefault "NOMAD_ALLOC_ID" "f" }}`, "dea-1"},
		{`{{ range split "," (env "LIST") }}[{{ . }}]{{ end }}`, "[a][b]"},
		{`{{ range loop 2 4 }}{{ . }}{{ end }}{{ range loop 1 }}{{ . }}{{ end }}`, "230"},
		{`{{ "a" | toUpper | base64Encode }}`, "QQ=="},
		{`{{ "QQ==" | base64Decode | toLower }}`, "a"},
		{`{{ with parseJSON "{\"a\":[1,2]}" }}{{ .a | toJSON }}{{ end }}`, "[1,2]"},
		{`{{ if contains "b" (split "," (env "LIST")) }}yes{{ end }}`, "yes"},
		{`{{ "a\n\nb" | indent 2 }}`, "  a\n\n  b"},
		{`{{ "x1" | regexReplaceAll "[0-9]" "#" | replaceAll "x" "y" | trimPrefix "y" }}`, "#"},
		{`{{ join "-" (split "," (env "LIST")) }}{{ printf "%03d" 7 }}`, "a-b007"},
		{`{{ if parseBool "true" }}{{ add1 }}{{ end }}`, "error: function \"add1\" not defined"},
		{`{{ with nomadVar "nomad/jobs/a" }}{{ .user }}:{{ .password.Value }} {{ .Keys }}{{ .Values }}{{ range .Tuples }}{{ .K }}={{ .V }};{{ end }}{{ end }}`, "u:p [password user][p u]password=p;user=u;"},
		{`{{ with nomadVar "nomad/jobs/a" }}{{ toJSON . }} {{ .user | toJSON }}{{ end }}`, `{"password":"p","user":"u"} "u"`},
		{`{{ range $k, $v := nomadVar "/nomad/jobs/a" }}{{ $k }}={{ $v }};{{ end }}`, "password=p;user=u;"},
		{`{{ (nomadVar "x@default").k }}`, "other"},
		{`{{ range nomadVarList "nomad/" }}{{ . }} {{ .Path }} {{ end }}{{ len nomadVarList }}`, "nomad/jobs/a nomad/jobs/a nomad/jobs/b nomad/jobs/b 3"},
		{`{{ (nomadVar "own").k }} {{ (nomadVar "own@team").k }}`, "of the job's namespace of the job's namespace"},
		{`{{ if nomadVarExists "x" }}yes{{ else }}no{{ end }}{{ nomadVarExists "x@default" }}{{ len (nomadVar "") }}`, "notrue0"},
		{`{{ nomadVar "x" }}`, `error: there is no Nomad variable "x"; run sets it with -nomad-var x:KEY=VALUE`},
		{`{{ range nomadVarListSafe "y" }}{{ end }}`, `error: there is no Nomad variable below "y"`},
		{`{{ mustEnv "UNKNOWN" }}`, "error: UNKNOWN is not set"},
	} {
		got, err := jobfile.Template{Data: c.in, Left: "{{", Right: "}}"}.Render(inputs)
		if want, fails := strings.CutPrefix(c.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Render(%q) = %q, %v; want an error with %q", c.in, got, err, want)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("Render(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestRenderMissingKey(t *testing.T) {
	data := `{{ with parseJSON "{}" }}<{{ .absent }}>{{ end }}{{ (parseJSON "{}").absent }}`
	loose := jobfile.Template{Data: data, Left: "{{", Right: "}}"}
	if _, err := loose.Render(inputs); err != nil {
		t.Errorf("without error_on_missing_key: %v", err)
	}
	strict := loose
	strict.ErrorOnMissingKey = true
	if out, err := strict.Render(inputs); err == nil {
		t.Errorf("error_on_missing_key gave %q and no error", out)
	}
}

// TestRenderErrorsHoldNoSecret: a function that can do nothing with a text does
// not tell the text.
func TestRenderErrorsHoldNoSecret(t *testing.T) {
	const secret = "(s3cret"
	in := jobfile.Inputs{NomadVars: jobfile.NomadVars{"": {"p": {"k": secret}}}, Lookup: inputs.Lookup}
	for call, want := range map[string]string{
		"parseInt .": "invalid syntax", "parseFloat .": "invalid syntax", "parseBool .": "invalid syntax", "parseJSON .": "no JSON from byte 1",
		"toJSON . | parseInt": "invalid syntax", `regexMatch . "a"`: "missing closing )", `regexReplaceAll . "a" "b"`: "missing closing )",
		"base64Decode .": "byte 0", "base64URLDecode .": "byte 0", "loop .": "", "mustEnv .": "environment variable (hidden) is not set", "nomadVar .": "(hidden)", `printf "%s\n" . | mustEnv`: "(hidden)",
		"indent 1 . | parseInt": "invalid syntax",
	} {
		data := `{{ with (nomadVar "p").k.Value }}{{ ` + call + ` }}{{ end }}`
		_, err := jobfile.Template{Data: data, Left: "{{", Right: "}}"}.Render(in)
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", call, err, want)
		}
	}
}

// TestTemplatesThatParseRender holds checkTemplate to Render: a template that
// the parser accepts has no function that rendering does not know.
func TestTemplatesThatParseRender(t *testing.T) {
	for _, call := range []string{`env "A"`, `len "abc"`, `html "<"`, `toUpper "a"`, `loop 1`, `timestamp`, `mustEnv "NOMAD_ALLOC_ID"`} {
		src := `job "j" {
		  group "g" {
		    task "t" {
		      driver = "wardyn"
		      config {
		        image = "x"
		      }
		      template {
		        destination = "local/x"
		        data        = "{{ ` + strings.ReplaceAll(call, `"`, `\"`) + ` }}"
		      }
		    }
		  }
		}`
		job, err := jobfile.Parse("t.hcl", []byte(src), jobfile.Options{})
		if err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		if _, err := job.Groups[0].Tasks[0].Templates[0].Render(inputs); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
