package docker

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestFindingsAreWrittenDown: the file says what was found and when that still
// held, and is not written anew at each examination.
func TestFindingsAreWrittenDown(t *testing.T) {
	dir, err := datadir.Open(t.TempDir() + "/data")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.RemoveRunRoot(); err != nil {
			t.Error(err)
		}
	})
	r := &Runner{opts: Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}}
	if k, err := LastFindings(dir.Path()); err != nil || !k.At.IsZero() {
		t.Errorf("before any: %+v, %v", k, err)
	}
	found := runner.Findings{Healthy: true, EngineVersion: "1", Classes: []runner.ClassFinding{{Class: "CC1", Runtime: "runc", Works: true}}}
	other := found
	other.EngineVersion = "2"
	pending := other
	pending.Pending, pending.EngineVersion = true, "3"
	at := time.Unix(1000, 0).UTC()
	for i, c := range []struct {
		f    runner.Findings
		now  time.Time
		want time.Time
		ver  string
	}{
		{found, at, at, "1"},
		{found, at.Add(findingsLife - 1), at, "1"},
		{found, at.Add(findingsLife), at.Add(findingsLife), "1"},
		{pending, at.Add(findingsLife + 1), at.Add(findingsLife), "1"},
		{other, at.Add(findingsLife + 2), at.Add(findingsLife + 2), "2"},
	} {
		r.keepFindings(c.f, c.now)
		if k, err := LastFindings(dir.Path()); err != nil || !k.At.Equal(c.want) || k.Findings.EngineVersion != c.ver {
			t.Errorf("%d: %+v, %v", i, k, err)
		}
	}
	if err := os.WriteFile(dir.Path(findingsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LastFindings(dir.Path()); err == nil {
		t.Error("a broken file is no error")
	}
}
