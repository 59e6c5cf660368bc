package otlp

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// E121: a record that a collector cannot take costs no other one its delivery,
// and is counted.
func TestE121PoisonedRecordIsIsolated(t *testing.T) {
	const records = 300
	for _, where := range []int{0, 137, records - 1} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			c, log := newCollector(t), &testenv.Buffer{}
			c.status = 503
			e := c.export(t, t.TempDir(), 1<<20, log)
			run := uuid.New()
			for i := range records {
				flow := fmt.Sprint("flow-", i)
				if i == where {
					flow = "poison"
				}
				takeOf(t, e, "", run, flow) // a fifth of the spool is the run's
			}
			c.set(func() { c.status, c.poison, c.asked = 0, "poison", 0 })
			testenv.Eventually(t, "the others and the gap", func() bool { n, gaps := c.arrived(); return n == records-1 && gaps == 1 })
			c.mu.Lock()
			defer c.mu.Unlock()
			for flow, times := range c.flows {
				if times != 1 {
					t.Errorf("%s came %d times", flow, times)
				}
			}
			if c.gaps[run.String()] != 1 || c.asked > 60 {
				t.Errorf("missing: %v; it took %d requests", c.gaps, c.asked)
			}
			if got := log.String(); strings.Count(got, "cannot be delivered") != 1 || !strings.Contains(got, "run_id="+run.String()) {
				t.Errorf("the log:\n%s", got)
			}
		})
	}
}

// A collector that rejects whatever it is sent loses few records, not all of
// them: after the second in a row it is left alone.
func TestE121CollectorThatRejectsEverything(t *testing.T) {
	c, dir, log := newCollector(t), t.TempDir(), &testenv.Buffer{}
	c.status = 400
	e := c.exportWaiting(t, dir, 1<<20, log, time.Hour, time.Hour)
	take(t, e, 0, 200)
	testenv.Eventually(t, "the pause", func() bool { return strings.Contains(log.String(), "are kept and sent again") })
	if got := strings.Count(log.String(), "cannot be delivered"); got != 2 {
		t.Errorf("%d records were given up:\n%s", got, log.String())
	}
	c.set(func() { c.status = 0 })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c.export(t, dir, 1<<20, io.Discard) // what the end of the first had no time for
	testenv.Eventually(t, "the others and the gaps", func() bool { n, gaps := c.arrived(); return n == 198 && gaps == 2 })
}
