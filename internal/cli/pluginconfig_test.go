package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPluginConfig(t *testing.T) {
	bare := map[string]any{
		"data_dir": "/srv/wardyn",
		"slots":    4,
		"private_hosts": []map[string]any{
			{"artifacts.example.internal": []any{"10.0.0.1"}},
		},
	}
	options := `
data_dir = "/srv/wardyn"
slots    = 4
private_hosts {
  "artifacts.example.internal" = ["10.0.0.1"]
}
`
	for name, c := range map[string]struct {
		src  string
		want map[string]any
		err  string
	}{
		"nothing":       {"", map[string]any{}, ""},
		"bare options":  {options, bare, ""},
		"agent file":    {"data_dir = \"/nomad\"\nplugin \"raw_exec\" {}\nplugin \"nomad-driver-wardyn\" {\n args = []\n config {" + options + "}\n}\n", bare, ""},
		"no config":     {`plugin "nomad-driver-wardyn" {}`, map[string]any{}, ""},
		"other plugins": {"plugin \"b\" {}\nplugin \"a\" {}", nil, `no plugin block labelled "nomad-driver-wardyn", only a, b`},
		"no HCL":        {"data_dir = {", nil, ""},
	} {
		path := filepath.Join(t.TempDir(), "plugin.hcl")
		if err := os.WriteFile(path, []byte(c.src), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadPluginConfig(path)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, error %v; want %q", name, got, err, c.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, error %v; want %#v", name, got, err, c.want)
		}
	}
	if got, err := loadPluginConfig(""); err != nil || len(got) != 0 {
		t.Errorf("no file: %v, %v", got, err)
	}
	if _, err := loadPluginConfig(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("an absent file is no error")
	}
}
