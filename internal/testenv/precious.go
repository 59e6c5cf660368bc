package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Precious writes a file that whatever happens next must leave as it is; the
// answer checks that it did.
func Precious(t testing.TB, path string) (check func()) {
	t.Helper()
	const work = "work"
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(work), 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if b, err := os.ReadFile(path); string(b) != work {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}
