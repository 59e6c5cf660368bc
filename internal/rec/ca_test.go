package rec

import (
	"os"
	"path/filepath"
	"testing"
)

func TestT49CAFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wardyn")
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, []byte("ROOTS"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bundles []string
		want    string
	}{
		"with roots":    {[]string{"/nowhere", roots}, "ROOTS\nCA\n"},
		"without roots": {nil, "CA\n"},
	} {
		writeCA(dir, []byte("CA\n\n"), c.bundles)
		for file, want := range map[string]string{caFile: "CA\n", caBundle: c.want} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			fi, serr := os.Stat(filepath.Join(dir, file))
			if err != nil || string(b) != want || serr != nil || fi.Mode().Perm() != 0o644 {
				t.Errorf("%s: %s: %q, %v, %v", name, file, b, err, fi)
			}
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o777 || fi.Mode()&os.ModeSticky == 0 {
		t.Errorf("%v, %v", fi, err)
	}
}
