package control

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestK36AuditKeepsCopies(t *testing.T) {
	b, dir := newBench(t), filepath.Join(t.TempDir(), "audit")
	a, err := OpenAudit(dir, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b.Server = New(Options{Dir: b.dir, Copies: []Copy{a}, Log: slog.New(slog.DiscardHandler)})
	for _, old := range []string{"2026-01-07.jsonl", "2026-01-08.jsonl", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, old), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 1, 10, 23, 59, 0, 0, time.UTC)
	a.now = func() time.Time { return now }
	id := uuid.New()
	if err := b.Prepare(Run{ID: id, Owner: Owner{Namespace: "n", Job: "j"}}); err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	c := sidecar(t, e, tokenOf(id))
	post(t, c, decision(id, 1))
	post(t, c, decision(id, 1)) // its acknowledgement got lost
	now = now.Add(2 * time.Minute)
	post(t, c, decision(id, 2))

	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"2026-01-10.jsonl", "2026-01-11.jsonl", "notes.txt"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	f, err := os.Open(filepath.Join(dir, "2026-01-10.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var l OwnedRecord
		if err := json.Unmarshal(s.Bytes(), &l); err != nil || l.Job != "j" || l.Host != "b.example" || l.RunID != id {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if n != 1 {
		t.Errorf("%d records of the day, want 1", n)
	}
}
