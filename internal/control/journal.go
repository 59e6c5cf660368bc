package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// Names in the folder for people's files.
const (
	journalName = "decisions.jsonl"
	olderName   = "decisions.1.jsonl"
	summaryName = "summary.json"
)

// maxJournal bounds each of the two decision files. When both are full of one
// run's records, gap records say how many more there were: evidence is never
// thrown away to make room.
const maxJournal = 64 << 20

// journal keeps a run's decisions in files. Its caller serialises the calls.
type journal struct {
	id    uuid.UUID
	dir   *os.Root
	f     *os.File
	limit int64

	size  int64
	seq   uint64
	ours  int  // records of this run in the current file
	older bool // the older file has records of this run
	gap   RecordGap
	told  uint64 // gap.N as last written

	// What the files held of this run when they were opened.
	counts *counter
	recent recent
}

// openJournal opens the files in dir, "" being none, and reads back what they
// hold of the run.
func openJournal(dir string, id uuid.UUID, limit int64) (*journal, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := taskpath.OpenRecords(dir, true)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = maxJournal
	}
	j := &journal{id: id, dir: root, limit: limit, counts: newCounter(id)}
	if err := j.read(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// read takes the run's earlier records in, and leaves the current file open
// behind its last whole line. Half a line was never acknowledged, so the
// sidecar sends it again.
func (j *journal) read() error {
	older, err := taskpath.OpenRecord(j.dir, olderName, os.O_RDONLY)
	switch {
	case err == nil:
		_, err = scan(older, j.take(func() { j.older = true }))
		older.Close()
	default:
		err = ignoreMissing(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", olderName, err)
	}
	if j.f, err = taskpath.OpenRecord(j.dir, journalName, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if j.size, err = scan(j.f, j.take(func() { j.ours++ })); err != nil {
		return fmt.Errorf("%s: %w", journalName, err)
	}
	return j.seekEnd()
}

// seekEnd cuts the current file behind its last whole line.
func (j *journal) seekEnd() error {
	if err := j.f.Truncate(j.size); err != nil {
		return fmt.Errorf("%s: %w", journalName, err)
	}
	_, err := j.f.Seek(j.size, io.SeekStart)
	return err
}

// take visits records read back, those of this run only.
func (j *journal) take(seen func()) func(Record) {
	return func(r Record) {
		if r.RunID != j.id {
			return
		}
		seen()
		j.counts.add(r)
		j.seq = max(j.seq, r.Seq)
		if r.Gap != nil {
			j.seq = max(j.seq, r.Gap.To)
		}
		if r.Seq > 0 {
			l := unflatten(r)
			l.Flow.Seq = r.FlowSeq
			j.recent.add(keyOf(l))
		}
	}
}

// append numbers a record and writes it, or notes that there is no room.
func (j *journal) append(r *Record) error {
	r.Seq = j.seq + 1
	b, err := line(*r)
	if err != nil {
		return err
	}
	if j.size+int64(len(b)) > j.limit && !j.older {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if j.size+int64(len(b)) > j.limit && j.older {
		j.seq++
		return j.miss()
	}
	if err := j.write(b); err != nil {
		return err
	}
	j.seq++
	j.ours++
	return nil
}

// rotate makes the current file the older one. What stood there is an earlier
// run's.
func (j *journal) rotate() error {
	if err := j.dir.Rename(journalName, olderName); err != nil {
		return fmt.Errorf("%s: %w", journalName, err)
	}
	f, err := taskpath.OpenRecord(j.dir, journalName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	j.f.Close()
	j.f, j.size = f, 0
	j.older, j.ours = j.ours > 0, 0
	return nil
}

// miss counts a record that is not kept. A gap record is written for the
// first, and each time their number has doubled, so that gaps take no room.
func (j *journal) miss() error {
	if j.gap.N == 0 {
		j.gap.From = j.seq
	}
	j.gap.N++
	j.gap.To = j.seq
	j.counts.lost(Record{Gap: &j.gap})
	if bits.OnesCount64(j.gap.N) > 1 {
		return nil
	}
	return j.writeGap()
}

func (j *journal) writeGap() error {
	gap := j.gap
	b, err := line(Record{V: recordVersion, RunID: j.id, Time: time.Now().UTC(), Kind: KindGap, Gap: &gap})
	if err != nil {
		return err
	}
	if err := j.write(b); err != nil {
		return err
	}
	j.told = j.gap.N
	return nil
}

// write appends whole lines or nothing.
func (j *journal) write(b []byte) error {
	if _, err := j.f.Write(b); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", journalName, err), j.seekEnd())
	}
	j.size += int64(len(b))
	return nil
}

// finish writes what is only known at the end: how large a gap is, and the
// summary. The journal stays open.
func (j *journal) finish() error {
	var err error
	if j.gap.N > j.told {
		err = j.writeGap()
	}
	b, merr := json.MarshalIndent(j.counts.summary(), "", "  ")
	if merr != nil {
		return errors.Join(err, merr)
	}
	b = append(clean.Visible(b), '\n')
	return errors.Join(err, replaceFile(j.dir, summaryName, b))
}

// close lets go of the files; a nil journal has none.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	var err error
	if j.f != nil {
		err = j.f.Close()
	}
	return errors.Join(err, j.dir.Close())
}
