package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLookMakesNothing: who only looks sees what Open would say.
func TestLookMakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if _, missing, err := Look(path); !missing || err != nil {
		t.Errorf("before: %v, %v", missing, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("it was made")
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.RemoveRunRoot(); err != nil {
			t.Error(err)
		}
	})
	if instance, missing, err := Look(path); instance != d.Instance() || missing || err != nil {
		t.Errorf("%q, %v, %v", instance, missing, err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Look(path); err == nil || !strings.Contains(err.Error(), "0755") {
		t.Errorf("readable by others: %v", err)
	}
}
