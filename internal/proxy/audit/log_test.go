package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// endpoint is a control plane that can be away.
type endpoint struct {
	mu     sync.Mutex
	away   bool
	reject bool
	posts  int
	got    []egress.DecisionLog
}

func (e *endpoint) post(_ context.Context, b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return errors.New("connection refused")
	}
	if e.reject {
		return fmt.Errorf("%w: 400", ErrRejected)
	}
	e.posts++
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		var d egress.DecisionLog
		if err := json.Unmarshal(line, &d); err != nil {
			return err
		}
		e.got = append(e.got, d)
	}
	return nil
}

func (e *endpoint) set(away, reject bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away, e.reject = away, reject
}

func record(host string) egress.DecisionLog {
	return egress.DecisionLog{Request: egress.Request{Host: host, Port: 443, Method: "CONNECT"}, Decision: egress.Deny, RuleSource: "policy:default-deny"}
}

func newLog(t *testing.T, e *endpoint, buffer int, out *bytes.Buffer, m *Mask) *Log {
	o := Options{RunID: uuid.New(), Buffer: buffer, Mask: m, Logger: slog.New(slog.DiscardHandler)}
	if e != nil {
		o.Post = e.post
	}
	if out != nil {
		o.Out = out
	}
	return New(t.Context(), o)
}

func TestP54LineAndPost(t *testing.T) {
	e, out := &endpoint{}, &bytes.Buffer{}
	l := newLog(t, e, 0, out, nil)
	for i := range 5 {
		l.Record(record(fmt.Sprintf("h%d.test", i)))
	}
	if lost := l.Close(t.Context()); lost != 0 {
		t.Errorf("%d records lost", lost)
	}
	if len(e.got) != 5 {
		t.Fatalf("%d records posted, want 5", len(e.got))
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5", len(lines))
	}
	for i, d := range e.got {
		if d.Request.Host != fmt.Sprintf("h%d.test", i) || d.Flow.Seq != uint64(i+1) || d.Flow.Version != Version {
			t.Errorf("record %d: %+v %+v", i, d.Request, d.Flow)
		}
		posted, _ := json.Marshal(d)
		if lines[i] != string(posted) {
			t.Errorf("line and post differ:\n%s\n%s", lines[i], posted)
		}
	}
}

// TestControlRestartLosesNothing: what was not acknowledged is sent again, in order.
func TestControlRestartLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{away: true}
		l := newLog(t, e, 0, nil, nil)
		for i := range 50 {
			l.Record(record(fmt.Sprintf("h%d.test", i)))
		}
		time.Sleep(time.Minute)
		e.set(false, false)
		time.Sleep(10 * time.Second)
		if lost := l.Close(t.Context()); lost != 0 || len(e.got) != 50 {
			t.Errorf("%d lost, %d posted", lost, len(e.got))
		}
		for i, d := range e.got {
			if d.Flow.Seq != uint64(i+1) {
				t.Fatalf("record %d has sequence number %d", i, d.Flow.Seq)
			}
		}
	})
}

func TestP55GapRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{away: true}
		l := newLog(t, e, 10, nil, nil)
		for i := range 25 {
			l.Record(record(fmt.Sprintf("h%d.test", i)))
		}
		synctest.Wait()
		e.set(false, false)
		time.Sleep(10 * time.Second)
		if lost := l.Close(t.Context()); lost != 0 {
			t.Errorf("%d lost and not reported", lost)
		}
		if len(e.got) != 11 {
			t.Fatalf("%d records posted, want 10 and a gap", len(e.got))
		}
		gap := e.got[10]
		if gap.RuleSource != "egress.decisions.dropped:15" || gap.Decision != egress.Deny || gap.Flow.Kind != "gap" {
			t.Errorf("gap record %+v", gap)
		}
	})
}

func TestRejectedRecordDoesNotBlock(t *testing.T) {
	e := &endpoint{reject: true}
	l := newLog(t, e, 0, nil, nil)
	l.Record(record("a.test"))
	if lost := l.Close(t.Context()); lost > 1 {
		t.Errorf("%d lost", lost)
	}
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{away: true}
		l := newLog(t, e, 0, nil, nil)
		for range 3 {
			l.Record(record("a.test"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if lost := l.Close(ctx); lost != 3 {
			t.Errorf("%d lost, want 3", lost)
		}
		l.Record(record("late.test")) // B49: no panic after the end
	})
}

func TestT58Mask(t *testing.T) {
	m := &Mask{}
	if m.Add("short") {
		t.Error("a value under 8 bytes is registered")
	}
	if !m.Add("secret-0123456789", "secret-0123456789-longer", `quo"ted-secret`) {
		t.Error("a long value is not registered")
	}
	out := &bytes.Buffer{}
	l := newLog(t, nil, 0, out, m)
	d := record("a.test")
	d.Request.Path = "/x/secret-0123456789-longer/y"
	d.Cause = `echo of quo"ted-secret`
	l.Record(d)
	l.Close(t.Context())
	if got := out.String(); strings.Contains(got, "secret-0123") || strings.Contains(got, "quo") || strings.Contains(got, "longer") || strings.Count(got, hidden[1:5]) != 2 {
		t.Errorf("not masked: %s", got)
	}
}

func TestRecordIsConcurrent(t *testing.T) {
	e := &endpoint{}
	l := newLog(t, e, 1<<20, nil, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 100 {
				l.Record(record("a.test"))
			}
		}()
	}
	wg.Wait()
	if lost := l.Close(t.Context()); lost != 0 || len(e.got) != 800 {
		t.Errorf("%d lost, %d posted", lost, len(e.got))
	}
}

func TestBatchesKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{away: true}
		l := New(t.Context(), Options{Post: e.post, Batch: 20, Logger: slog.New(slog.DiscardHandler)})
		for range 50 {
			l.Record(record("a.test"))
		}
		synctest.Wait()
		e.set(false, false)
		time.Sleep(10 * time.Second)
		if lost := l.Close(t.Context()); lost != 0 || len(e.got) != 50 || e.posts > 4 {
			t.Errorf("%d lost, %d records in %d posts", lost, len(e.got), e.posts)
		}
		for i, d := range e.got {
			if d.Flow.Seq != uint64(i+1) {
				t.Fatalf("record %d has sequence number %d", i, d.Flow.Seq)
			}
		}
	})
}
