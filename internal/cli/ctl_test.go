package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ctl finds its installation as every other command does, and says how where
// there is none.
func TestCtlFindsItsInstallation(t *testing.T) {
	there, config := t.TempDir(), filepath.Join(t.TempDir(), "c.hcl")
	if err := os.WriteFile(config, []byte(`data_dir = "`+there+`"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []ctlOptions{{dataDir: there}, {pluginConfig: config}} {
		if got, err := o.installation(); err != nil || got != there {
			t.Errorf("%+v: %q, %v", o, got, err)
		}
	}
	for want, o := range map[string]ctlOptions{
		"give one":                         {dataDir: there, pluginConfig: config},
		"-plugin-config or -data-dir says": {dataDir: filepath.Join(there, "missing")},
		"no such file":                     {pluginConfig: config + "x"},
	} {
		if got, err := o.installation(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %q, %v, want %q", o, got, err, want)
		}
	}
}
