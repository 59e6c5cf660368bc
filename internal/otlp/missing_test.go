package otlp

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
)

// E121: what is missing is counted by run, by no run where there are too many,
// and survives a restart; what the collector was told counts no more.
func TestE121MissingByRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), missingName)
	open := func() *missing {
		m, err := openMissing(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.close() })
		return m
	}
	m := open()
	add := func(run uuid.UUID, n uint64) {
		if err := m.add(run, n); err != nil {
			t.Fatal(err)
		}
	}
	a, late := uuid.New(), uuid.New()
	add(a, 2)
	add(a, 3)
	for range maxSlots - 2 {
		add(uuid.New(), 1)
	}
	add(late, 7)
	m = open()
	gaps := m.gaps()
	if len(gaps) != maxSlots || gaps[0] != (gap{n: 7}) || gaps[1] != (gap{a, 5}) {
		t.Errorf("%d gaps, first %v", len(gaps), gaps[:2])
	}
	add(a, 1)
	if err := m.told(gaps); err != nil {
		t.Fatal(err)
	}
	add(late, 4) // in the place of one that was told
	m = open()
	if got := m.gaps(); len(got) != 2 || got[0] != (gap{a, 1}) || got[1] != (gap{late, 4}) {
		t.Errorf("afterwards: %v", got)
	}
}

// E121: what belongs to no run has one place, the first, whatever came before it.
func TestE121MissingOfNoRun(t *testing.T) {
	m, err := openMissing(filepath.Join(t.TempDir(), missingName))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	a := uuid.New()
	for _, g := range []gap{{a, 2}, {uuid.Nil, 3}} {
		if err := m.add(g.run, g.n); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.add(uuid.Nil, 1); err != nil {
		t.Fatal(err)
	}
	for range maxSlots { // those that find no slot are counted as no run's too
		if err := m.add(uuid.New(), 1); err != nil {
			t.Fatal(err)
		}
	}
	gaps := m.gaps()
	if len(gaps) != maxSlots || gaps[0] != (gap{n: 4 + 2}) {
		t.Errorf("%d gaps, first %v", len(gaps), gaps[0])
	}
	if err := m.told(gaps); err != nil {
		t.Fatal(err)
	}
	if left := m.gaps(); len(left) != 0 {
		t.Errorf("left when all was told: %v", left)
	}
}

// E121: a slot that was never written, as on a disk that was full, is nobody's:
// what is missing of no run is told once and counts no more.
func TestE121SlotThatWasNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), missingName)
	last := gap{uuid.New(), 2}
	file := binary.BigEndian.AppendUint64(make([]byte, 16), 7) // of no run
	file = append(file, make([]byte, slotSize)...)
	file = binary.BigEndian.AppendUint64(append(file, last.run[:]...), last.n)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := openMissing(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	gaps := m.gaps()
	if len(gaps) != 2 || gaps[0] != (gap{n: 7}) || gaps[1] != last {
		t.Fatalf("%v", gaps)
	}
	if err := m.told(gaps); err != nil {
		t.Fatal(err)
	}
	if left := m.gaps(); len(left) > 0 {
		t.Errorf("once told: %v", left)
	}
}
