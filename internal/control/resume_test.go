package control

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func TestRestartServesTheSameRun(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	before := b.open(t, id, files, nil)
	c := sidecar(t, before, tokenOf(id))
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(t, c, decision(id, 1))
	folder, err := os.Stat(before.Dir)
	if err != nil {
		t.Fatal(err)
	}

	b.restart(t)
	if err := c.Ready(t.Context()); err == nil {
		t.Fatal("the socket answers while nobody serves it")
	}
	var heard []egress.DecisionLog
	after, err := b.Resume(t.Context(), Run{ID: id, FilesDir: files, OnDecision: func(l egress.DecisionLog) { heard = append(heard, l) }})
	if err != nil {
		t.Fatal(err)
	}
	// The sidecar has the folder mounted: it must be the same one.
	if now, err := os.Stat(after.Dir); err != nil || !os.SameFile(folder, now) {
		t.Errorf("another folder: %v", err)
	}
	select {
	case <-after.Ready:
	default:
		t.Error("the sidecar was ready and no longer is")
	}
	raw, err := c.Config(t.Context())
	if err != nil || !bytes.Contains(raw, proxyConfig(t, id)) {
		t.Errorf("configuration %s, %v", raw, err)
	}
	post(t, c, decision(id, 1)) // what was not acknowledged comes again
	post(t, c, decision(id, 2))
	if got := lines(t, files); len(got) != 2 || got[0].Seq != 1 || got[1].Seq != 2 || got[1].FlowSeq != 2 {
		t.Errorf("records %+v", got)
	}
	if len(heard) != 1 {
		t.Errorf("heard %d records, want the new one", len(heard))
	}
	if s, ok := b.Summary(id); !ok || s.Denied != 2 {
		t.Errorf("summary %+v", s)
	}
}

func TestResumeBeforeTheSidecarIsReady(t *testing.T) {
	b, id := newBench(t), uuid.New()
	b.open(t, id, "", nil)
	b.restart(t)
	e, err := b.Resume(t.Context(), Run{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Ready:
		t.Error("ready without a word of the sidecar's")
	default:
	}
	if err := sidecar(t, e, tokenOf(id)).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-e.Ready
}

func TestResumeOfARunWithoutASocket(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e, err := b.Resume(t.Context(), Run{ID: id, FilesDir: filesDir(t)})
	if err != nil || e.Dir != "" {
		t.Errorf("%+v, %v; want an empty endpoint", e, err)
	}
	if !slices.Equal(b.Runs(), []uuid.UUID{id}) {
		t.Errorf("known runs %v", b.Runs())
	}
}

func TestResumeRefusesABrokenConfiguration(t *testing.T) {
	b, id := newBench(t), uuid.New()
	b.open(t, id, "", nil)
	b.restart(t)
	p := filepath.Join(b.dir.RunDir(id), configName)
	if err := os.WriteFile(p, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resume(t.Context(), Run{ID: id}); err == nil || !strings.Contains(err.Error(), configName) {
		t.Errorf("%v, want an error that names the file", err)
	}
}

func TestCloseRemovesWhatTheSocketNeeded(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	e := b.open(t, id, files, nil)
	c := sidecar(t, e, tokenOf(id))
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(t, c, decision(id, 1))
	for range 2 {
		if err := b.Close(id); err != nil {
			t.Fatal(err)
		}
	}
	if in, err := os.ReadDir(b.dir.RunDir(id)); err != nil || len(in) != 0 {
		t.Errorf("the run's folder holds %v, %v", in, err)
	}
	if err := c.Ready(t.Context()); err == nil {
		t.Error("the socket still answers")
	}
	summary, err := os.ReadFile(filepath.Join(files, summaryName))
	if err != nil || !bytes.Contains(summary, []byte(`"denied": 1`)) {
		t.Errorf("summary %s, %v", summary, err)
	}
	// The run is prepared still and may be opened once more: a substrate
	// clears an earlier attempt away before each.
	e, err = b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Ready:
		t.Error("the new sidecar is ready before it said so")
	default:
	}
	post(t, sidecar(t, e, tokenOf(id)), decision(id, 1)) // another sidecar counts from 1 again
	post(t, sidecar(t, e, tokenOf(id)), decision(id, 2))
	if got := lines(t, files); len(got) != 3 {
		t.Errorf("%d records, want 3", len(got))
	}
}

func TestCloseOfWhatAnotherProcessLeft(t *testing.T) {
	b, id := newBench(t), uuid.New()
	if err := b.Close(id); err != nil {
		t.Errorf("an unknown run: %v", err)
	}
	b.open(t, id, "", nil)
	b.restart(t)
	if err := b.Close(id); err != nil {
		t.Fatal(err)
	}
	if in, err := os.ReadDir(b.dir.RunDir(id)); err != nil || len(in) != 0 {
		t.Errorf("the run's folder holds %v, %v", in, err)
	}
	if err := b.dir.RemoveRunDir(id); err != nil {
		t.Fatal(err)
	}
}

func TestForget(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	b.open(t, id, files, nil)
	for range 2 {
		if err := b.Forget(id); err != nil {
			t.Fatal(err)
		}
	}
	if runs := b.Runs(); len(runs) != 0 {
		t.Errorf("known runs %v", runs)
	}
	if _, ok := b.Summary(id); ok {
		t.Error("a forgotten run has a summary")
	}
	if _, err := os.Stat(filepath.Join(files, journalName)); err != nil {
		t.Errorf("people's files are gone: %v", err)
	}
	if err := b.dir.RemoveRunDir(id); err != nil {
		t.Fatal(err)
	}
}
