package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestK17SidecarHearsOfItsSocket: what appears in the control folder is told,
// and so is its being handed over.
func TestK17SidecarHearsOfItsSocket(t *testing.T) {
	dir := t.TempDir()
	changes := controlChanges(t.Context(), "unix://"+filepath.Join(dir, "control.sock"), slog.New(slog.DiscardHandler))
	for name, change := range map[string]func(string) error{
		"made":        func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"handed over": func(p string) error { return os.Chmod(p, 0o640) },
	} {
		p := filepath.Join(dir, name)
		if name != "made" {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			<-changes
		}
		if err := change(p); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changes:
		case <-time.After(time.Minute):
			t.Errorf("%s: not told", name)
		}
	}
	select {
	case <-controlChanges(t.Context(), "https://control.example", slog.New(slog.DiscardHandler)):
		t.Error("a control plane elsewhere has no folder")
	default:
	}
}
