package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// G11, K19: entries that the address guard refuses, and a task that reaches
// nothing, are noted before placement, with what to do; other entries are not.
func TestK19NotesOfReach(t *testing.T) {
	dir := t.TempDir()
	notes := func(egress string) string {
		t.Helper()
		file := filepath.Join(dir, "j.nomad.hcl")
		job := "job \"j\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"wardyn\"\n      config {\n        image = \"a\"\n        command = \"b\"\n" + egress + "\n      }\n    }\n  }\n}\n"
		if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := judge{}.file(t.Context(), file)
		if err != nil || len(v.Faults) > 0 {
			t.Fatalf("%v, %+v", err, v.Faults)
		}
		return strings.Join(v.Notes, "\n")
	}
	allow := func(entry string) string { return "        egress {\n          allow = [\"" + entry + "\"]\n        }" }
	for entry, want := range map[string]string{
		"10.0.0.5:5432":                   "private_hosts { \"NAME\" = [\"10.0.0.5\"] }",
		"localhost:80":                    "the sandbox itself",
		"169.254.169.254":                 "no setting opens it",
		"host.docker.internal:8080":       "private_hosts",
		"wardyn-proxy:3128":               "own proxy",
		"api.example.com":                 "",
		"8.8.8.8:53":                      "",
		"*.example.com:443":               "",
		"wardyn-proxy.packages.example:1": "",
	} {
		got := notes(allow(entry))
		if (got == "") != (want == "") || !strings.Contains(got, want) || want != "" && !strings.Contains(got, "j.nomad.hcl:9: task \"t\": egress.allow: \""+entry+"\"") {
			t.Errorf("%s: %s", entry, got)
		}
	}
	for config, want := range map[string]bool{
		"": true, "egress {\n deny = [\"a.example\"]\n}": true, "network_mode = \"none\"": false,
	} {
		if got := notes(config); strings.Contains(got, "reaches nothing beyond its own sandbox") != want {
			t.Errorf("%q: %s", config, got)
		}
	}
}

// An agent's file without the plugin block is not taken for the plugin's options.
func TestAgentWithoutPluginBlock(t *testing.T) {
	_, err := parsePluginConfig([]byte("bind_addr = \"127.0.0.1\"\nclient {\n  enabled = true\n}\n"))
	if err == nil || !strings.Contains(err.Error(), "bind_addr, client") || !strings.Contains(err.Error(), "without a plugin block") {
		t.Errorf("%v", err)
	}
	for _, bare := range []string{"slots = 3\nports {\n  allow = true\n}\n", "tls {\n  cert = \"/etc/docker.pem\"\n}\n"} { // the latter is another driver's
		if _, err := parsePluginConfig([]byte(bare)); err != nil {
			t.Errorf("%s: %v", bare, err)
		}
	}
}
