package otlp

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
)

const (
	// slotSize is a run's id and a number of 8 bytes.
	slotSize = 16 + 8
	// maxSlots bounds the runs that are told apart. What others miss is counted
	// in the first slot, under no run's id.
	maxSlots = 1024
)

// gap is how many of a run's records the collector will not get. The nil id is
// that of runs which are not told apart.
type gap struct {
	run uuid.UUID
	n   uint64
}

// missing counts, in a file, the records that the collector will not get, by run.
// The file has a slot a run: to count one more is a write of a few bytes, and a
// flood of them takes no more room than one.
type missing struct {
	f     *os.File
	slots []gap // as in the file; those with 0 are free
	at    map[uuid.UUID]int
}

func openMissing(path string) (*missing, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSlots*slotSize))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &missing{f: f, slots: make([]gap, 1), at: map[uuid.UUID]int{uuid.Nil: 0}}
	for i := 0; (i+1)*slotSize <= len(b); i++ {
		slot := b[i*slotSize:]
		g := gap{uuid.UUID(slot[:16]), binary.BigEndian.Uint64(slot[16:])}
		if i == 0 {
			m.slots[0] = g
			continue
		}
		m.slots = append(m.slots, g)
		if g.run != uuid.Nil { // else it was never written
			m.at[g.run] = i
		}
	}
	return m, nil
}

// add counts n more of a run's.
func (m *missing) add(run uuid.UUID, n uint64) error {
	i, known := m.at[run]
	if !known {
		i = m.free()
	}
	if i > 0 && !known {
		if was := m.slots[i].run; was != uuid.Nil { // a new slot is nobody's, and the first stays no run's
			delete(m.at, was)
		}
		m.slots[i].run, m.at[run] = run, i
	}
	m.slots[i].n += n
	return m.write(i)
}

// free is the slot for a run that has none.
func (m *missing) free() int {
	if len(m.slots) < maxSlots {
		m.slots = append(m.slots, gap{})
		return len(m.slots) - 1
	}
	for i, g := range m.slots {
		if i > 0 && g.n == 0 {
			return i
		}
	}
	return 0
}

func (m *missing) write(i int) error {
	b := binary.BigEndian.AppendUint64(m.slots[i].run[:], m.slots[i].n)
	_, err := m.f.WriteAt(b, int64(i)*slotSize)
	return err
}

// gaps are those that the collector is to be told of.
func (m *missing) gaps() []gap {
	var out []gap
	for _, g := range m.slots {
		if g.n > 0 {
			out = append(out, g)
		}
	}
	return out
}

// told takes away what the collector was told.
func (m *missing) told(gaps []gap) error {
	for _, g := range gaps {
		i := m.at[g.run]
		m.slots[i].n -= g.n
		if err := m.write(i); err != nil {
			return err
		}
	}
	return nil
}

func (m *missing) close() error { return m.f.Close() }
