package control

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func openTest(t *testing.T, dir string, id uuid.UUID, limit int64) *journal {
	t.Helper()
	j, err := openJournal(dir, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.limit = limit
	t.Cleanup(func() { j.close() })
	return j
}

func appendN(t *testing.T, j *journal, from, to uint64) {
	t.Helper()
	for n := from; n <= to; n++ {
		r := flatten(decision(j.id, n))
		if err := j.append(&r); err != nil {
			t.Fatal(err)
		}
		j.counts.add(r)
	}
}

func readAll(t *testing.T, p string) []Record {
	t.Helper()
	f, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []Record
	if _, err := scan(f, func(r Record) { out = append(out, r) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestK36TwoFilesThenGaps(t *testing.T) {
	dir, id := filesDir(t), uuid.New()
	j := openTest(t, dir, id, 4000) // about ten records each
	appendN(t, j, 1, 100)
	older, current := readAll(t, filepath.Join(dir, olderName)), readAll(t, filepath.Join(dir, journalName))

	var kept uint64
	for _, r := range append(older, current...) {
		if r.Kind == kindDecision {
			kept++
			if r.Seq != kept {
				t.Fatalf("record %d has number %d", kept, r.Seq)
			}
		}
	}
	if kept < 10 || kept > 30 {
		t.Fatalf("%d records in two files of 4000 bytes", kept)
	}
	gaps := slices.DeleteFunc(current, func(r Record) bool { return r.Kind != KindGap })
	for i, g := range gaps { // the first, and each time their number has doubled
		if g.Seq != 0 || g.Gap.From != kept+1 || g.Gap.N != 1<<i || g.Gap.To != kept+g.Gap.N {
			t.Errorf("gap %d: %+v", i, g.Gap)
		}
	}
	if err := j.finish(); err != nil {
		t.Fatal(err)
	}
	last := readAll(t, filepath.Join(dir, journalName))
	if g := last[len(last)-1].Gap; g == nil || g.From != kept+1 || g.To != 100 || g.N != 100-kept {
		t.Errorf("the last record's gap %+v, want %d to 100", g, kept+1)
	}
	var s Summary
	b, err := os.ReadFile(filepath.Join(dir, summaryName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Denied != 100 || s.NotKept != 100-kept {
		t.Errorf("summary %s, %v", b, err)
	}
	for _, name := range []string{olderName, journalName} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Size() > 4000+10*300 {
			t.Errorf("%s: %v, %v", name, fi.Size(), err)
		}
	}

	// Read back, the numbers go on and the gap is not counted twice.
	again := openTest(t, dir, id, 4000)
	if got := again.counts.summary(); again.seq != 100 || got.NotKept != 100-kept || got.Denied != kept {
		t.Errorf("read back: seq %d, %+v", again.seq, got)
	}
}

func TestRotationGivesUpEarlierRunsOnly(t *testing.T) {
	dir, first, second := filesDir(t), uuid.New(), uuid.New()
	appendN(t, openTest(t, dir, first, 4000), 1, 100) // both files full
	j := openTest(t, dir, second, 4000)
	if j.seq != 0 || len(j.recent.keys) > 0 {
		t.Errorf("another run's records were taken for ours: %d", j.seq)
	}
	appendN(t, j, 1, 30)
	var got []uint64
	for _, name := range []string{olderName, journalName} {
		for _, r := range readAll(t, filepath.Join(dir, name)) {
			if r.RunID == second && r.Kind == kindDecision {
				got = append(got, r.Seq)
			}
		}
	}
	if len(got) < 10 || got[0] != 1 || !slices.IsSorted(got) {
		t.Errorf("of the second run are kept %v", got)
	}
}

func TestHalfALineIsCutOff(t *testing.T) {
	dir, id := filesDir(t), uuid.New()
	j := openTest(t, dir, id, maxJournal)
	appendN(t, j, 1, 2)
	p := filepath.Join(dir, journalName)
	whole, _ := os.ReadFile(p)
	if err := os.WriteFile(p, append(whole, strings.Repeat(`{"half":`, 1000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	again := openTest(t, dir, id, maxJournal)
	if again.seq != 2 {
		t.Errorf("seq %d, want 2", again.seq)
	}
	appendN(t, again, 3, 3)
	if got := readAll(t, p); len(got) != 3 || got[2].Seq != 3 {
		t.Errorf("records %+v", got)
	}
	if b, _ := os.ReadFile(p); !strings.HasSuffix(string(b), "}\n") || strings.Contains(string(b), "half") {
		t.Errorf("the half line is there still: %s", b)
	}
}

// A disk that is full: nothing half is left, and the sidecar sends it again.
func TestFailedWriteLeavesWholeLines(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	heard := 0
	e := b.open(t, id, files, func(egress.DecisionLog) { heard++ })
	j := b.runs[id].journal
	good := j.f
	readOnly, err := os.Open(filepath.Join(files, journalName))
	if err != nil {
		t.Fatal(err)
	}
	j.f = readOnly
	if status, body := request(t, e, "POST", egress.PathDecisions, "Bearer "+tokenOf(id), string(encode(t, decision(id, 1)))); status != 507 {
		t.Errorf("%d %s, want 507", status, body)
	}
	j.f = good
	readOnly.Close()
	if heard != 0 {
		t.Error("a record that was not kept was heard")
	}
	post(t, sidecar(t, e, tokenOf(id)), decision(id, 1))
	if got := lines(t, files); len(got) != 1 || got[0].Seq != 1 || heard != 1 {
		t.Errorf("records %+v, heard %d", got, heard)
	}
}

func TestDecisions(t *testing.T) {
	dir, id, other := filesDir(t), uuid.New(), uuid.New()
	if got, err := Decisions(dir, id, 5); len(got) != 0 || err != nil {
		t.Errorf("without files: %v, %v", got, err)
	}
	appendN(t, openTest(t, dir, other, maxJournal), 1, 3)
	j := openTest(t, dir, id, 4000)
	appendN(t, j, 1, 15) // in both files
	got, err := Decisions(dir, id, 12)
	if err != nil || len(got) != 12 {
		t.Fatalf("%d decisions, %v", len(got), err)
	}
	for i, l := range got {
		want := decision(id, uint64(i)+4)
		if !l.Time.Equal(want.Request.Time) || l.FlowID != want.Flow.FlowID || l.Code != want.RuleSource || l.Hint != want.Flow.Hint {
			t.Errorf("%d: %+v", i, l)
		}
	}
	if got, _ := Decisions(dir, id, 0); len(got) != 0 {
		t.Errorf("none wanted: %v", got)
	}
}

func TestScanTailBeginsWithAWholeLine(t *testing.T) {
	dir, id := filesDir(t), uuid.New()
	appendN(t, openTest(t, dir, id, maxJournal), 1, 10)
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seen []uint64
	if err := scanTail(f, 1000, func(r Record) { seen = append(seen, r.Seq) }); err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || len(seen) > 3 || seen[len(seen)-1] != 10 {
		t.Errorf("seen %v", seen)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	c := newCounter(uuid.New())
	for n := range 1000 {
		r := flatten(decision(uuid.Nil, uint64(n)))
		r.Host, r.Code = uuid.NewString(), uuid.NewString()
		c.add(r)
	}
	s := c.summary()
	if len(s.Hosts) != maxHosts || s.OtherHosts != 1000-maxHosts || len(s.Codes) != maxCodes || s.Denied != 1000 {
		t.Errorf("%d hosts, %d others, %d codes, %d denied", len(s.Hosts), s.OtherHosts, len(s.Codes), s.Denied)
	}
}

func TestSummaryCounts(t *testing.T) {
	c := newCounter(uuid.New())
	add := func(d egress.Decision, host string, end bool) {
		r := flatten(decision(uuid.Nil, 1))
		r.Decision, r.Host = d, host
		if end {
			r.Kind, r.BytesUp, r.BytesDown = kindEnd, 10, 20
		}
		c.add(r)
	}
	add(egress.Allow, "a", false)
	add(egress.Allow, "a", true)
	add(egress.Deny, "b", false)
	add(egress.Deny, "b", false)
	add(egress.Pending, "c", false)
	s := c.summary()
	if s.Allowed != 1 || s.Denied != 2 || s.Pending != 1 || s.BytesUp != 10 || s.BytesDown != 20 {
		t.Errorf("%+v", s)
	}
	if len(s.Hosts) != 3 || s.Hosts[0] != (HostSummary{Host: "b", Port: 443, Denied: 2}) {
		t.Errorf("hosts %+v", s.Hosts)
	}
	if s.Hosts[1] != (HostSummary{Host: "a", Port: 443, Allowed: 1, BytesUp: 10, BytesDown: 20}) {
		t.Errorf("bytes of a host: %+v", s.Hosts[1])
	}
}
