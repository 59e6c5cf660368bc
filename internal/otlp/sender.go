package otlp

import (
	"context"
	"errors"
	"time"
)

// maxBatch is how many records one request carries at most.
const maxBatch = 512

var errUnreadable = errors.New("the spool is damaged where they were")

// sender delivers the spool's records, one batch after another.
type sender struct {
	e *Exporter
	s *spool
	// most is how many records the next batch has at most: fewer after one that
	// was not taken, so that the fault is found, and more with each that is.
	most int
	// givenUp is how many records in a row were not taken.
	givenUp int
}

func (e *Exporter) sender(s *spool) *sender { return &sender{e: e, s: s, most: maxBatch} }

// step delivers one batch. more says that there may be another one.
func (s *sender) step(ctx context.Context) (more bool, err error) {
	b, err := s.s.next(s.most)
	if err != nil || b.empty() {
		return false, err
	}
	m, bad, err := encode(s.e.o.Node, b, time.Now())
	if err != nil {
		return false, err
	}
	if len(b.entries) > 0 && len(bad) == len(b.entries) {
		return true, s.passOver(b, bad, errUnreadable)
	}
	refused, why, err := s.e.client.post(ctx, m)
	switch {
	case errors.Is(err, errTooLarge) || errors.Is(err, errRejected):
		return s.narrow(b, err)
	case err != nil:
		return false, err
	}
	if refused > 0 {
		s.e.o.Log.Error("the collector refuses some decision records; they are in the files of this node only", "records", refused, "why", readable(why))
	}
	s.givenUp = 0
	s.most = min(2*s.most, maxBatch)
	return true, s.passOver(b, bad, errUnreadable)
}

// narrow follows a batch that will never be taken as it is. One of several
// records is sent again in halves: what a collector cannot read is a record, not
// all that happened to be beside it. A single one is given up. When that happens
// again with nothing taken in between, the fault is more likely the collector's
// than each record's, so the next waits.
func (s *sender) narrow(b batch, why error) (more bool, err error) {
	if len(b.entries) > 1 {
		s.most = len(b.entries) / 2
		return true, nil
	}
	if len(b.entries) == 0 { // what is missing is not taken
		return false, &laterError{err: why}
	}
	s.givenUp++
	if err := s.passOver(b, b.entries, why); err != nil {
		return false, err
	}
	if s.givenUp > 1 {
		return false, &laterError{err: why}
	}
	return true, nil
}

// passOver takes a batch from the spool, of which some records were not
// delivered: they are counted, before anything else, and the collector is told
// how many are missing.
func (s *sender) passOver(b batch, lost []entry, why error) error {
	if len(lost) > 0 {
		s.e.o.Log.Error("decision records cannot be delivered; they are in the files of this node only",
			"records", len(lost), "run_id", lost[0].run.String(), "error", why)
	}
	if err := s.s.miss(lost); err != nil {
		return err
	}
	return s.s.done(b)
}
