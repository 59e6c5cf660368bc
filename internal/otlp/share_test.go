package otlp

import (
	"fmt"
	"io"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// E121, D-14: whoever floods the spool while the collector is away leaves room
// for other tenants and for other runs of its own, also after a restart of the
// driver, and what is missing is told as the flooder's.
func TestE121OneRunLeavesRoomForOthers(t *testing.T) {
	const limit, few, flood = 128 << 10, 20, 1000
	c, dir := newCollector(t), t.TempDir()
	c.status = 503
	hogs := []uuid.UUID{uuid.New(), uuid.New()}
	sibling, other := uuid.New(), uuid.New()
	for round := range 2 {
		e := c.export(t, dir, limit, io.Discard)
		for _, hog := range hogs {
			for i := range flood {
				takeOf(t, e, "loud", hog, fmt.Sprint(hog, round, i))
			}
		}
		if round == 1 {
			for i := range few {
				takeOf(t, e, "loud", sibling, fmt.Sprint("sibling-", i))
				takeOf(t, e, "quiet", other, fmt.Sprint("other-", i))
			}
			c.set(func() { c.status = 0 })
			testenv.Eventually(t, "all", func() bool { n, gaps := c.arrived(); return n+gaps == 2*len(hogs)*flood+2*few })
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range few {
		if c.flows[fmt.Sprint("sibling-", i)] != 1 || c.flows[fmt.Sprint("other-", i)] != 1 {
			t.Errorf("record %d of the sibling came %d times, of the other tenant %d", i, c.flows[fmt.Sprint("sibling-", i)], c.flows[fmt.Sprint("other-", i)])
		}
	}
	for _, hog := range hogs {
		if c.gaps[hog.String()] == 0 {
			t.Errorf("nothing of %s is missing: %v", hog, c.gaps)
		}
	}
	if len(c.gaps) != len(hogs) {
		t.Errorf("missing: %v", c.gaps)
	}
}

// However many fill the spool, in whatever namespaces, one more has room.
func TestSharesLeaveRoom(t *testing.T) {
	const limit, n = 1 << 20, 100
	for _, c := range []struct{ namespaces, runs int }{{1, 1}, {1, 40}, {40, 1}, {7, 9}} {
		s := newShares()
		for full := false; !full; {
			full = true
			for i := range c.namespaces * c.runs {
				o := owner{fmt.Sprint(i % c.namespaces), uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint(i)))}
				if s.room(o, n, limit) {
					s.add(o, n)
					full = false
				}
			}
		}
		if s.total > limit || s.namespaces["0"] > limit/2 {
			t.Errorf("%+v: the spool holds %d of %d, and %d of one namespace", c, s.total, limit, s.namespaces["0"])
		}
		if fresh := (owner{"fresh", uuid.New()}); !s.room(fresh, limit/int64(5*(c.namespaces*c.runs+1)), limit) || s.total < limit/5-5*n {
			t.Errorf("%+v: %d of %d are taken, and one more has no room", c, s.total, limit)
		}
		if same := (owner{"0", uuid.New()}); !s.room(same, n, limit) {
			t.Errorf("%+v: one more run of a namespace has no room", c)
		}
	}
	s := newShares()
	o := owner{"n", uuid.New()}
	s.add(o, n)
	s.add(o, -n)
	if s.total != 0 || len(s.namespaces) != 0 || len(s.runs) != 0 {
		t.Errorf("what is gone is still counted: %+v", s)
	}
}

// What a namespace is called ends no owner early, and what another version of the
// driver wrote is nobody's.
func TestOwnersOfLines(t *testing.T) {
	for _, o := range []owner{{}, {"a b%20\n", uuid.New()}, {"default", uuid.New()}} {
		if got, record := cutOwner(o.line([]byte(`{"a": 1}`))); got != o || string(record) != `{"a": 1}` {
			t.Errorf("%+v: %+v, %s", o, got, record)
		}
	}
	if got, record := cutOwner([]byte(`{"a": 1, "b": 2}`)); got != (owner{}) || string(record) != `{"a": 1, "b": 2}` {
		t.Errorf("%+v, %s", got, record)
	}
}
