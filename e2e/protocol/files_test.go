package protocol

import (
	"os"
	"path/filepath"
	"testing"
)

// exists looks for a file in the task's local folder.
func exists(w *work, name string) bool {
	_, err := os.Stat(filepath.Join(w.Dir().Local, name))
	return err == nil
}

// touch makes a file in the task's local folder.
func touch(t *testing.T, w *work, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir().Local, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}
