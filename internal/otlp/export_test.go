package otlp

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// collector stands in for somebody's collector.
type collector struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	status int // what it answers; 0 takes everything
	most   int // records it takes in one request; 0 is any number
	answer string
	asked  int
	poison string         // a flow; a request that has it is answered 400
	flows  map[string]int // how often a record came
	gaps   map[string]int // what is missing, by run
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t, flows: map[string]int{}, gaps: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if r.Method != "POST" || r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Key") != "the-key" {
		c.t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
	}
	body, _ := io.ReadAll(r.Body)
	var m logs.LogsData
	if err := proto.Unmarshal(body, &m); err != nil {
		c.t.Error(err)
	}
	records := m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
	switch {
	case c.status != 0:
		w.Header().Set("Location", c.URL+"/elsewhere")
		w.WriteHeader(c.status)
		return
	case c.poison != "" && strings.Contains(string(body), c.poison):
		w.WriteHeader(http.StatusBadRequest)
		return
	case c.most != 0 && len(records) > c.most:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	for _, l := range records {
		c.take(l)
	}
	io.WriteString(w, c.answer)
}

func (c *collector) take(l *logs.LogRecord) {
	values := map[string]*common.AnyValue{}
	for _, a := range l.GetAttributes() {
		values[a.GetKey()] = a.GetValue()
	}
	if flow := values["wardyn.flow_id"]; flow != nil {
		c.flows[flow.GetStringValue()]++
	}
	if gap := values["wardyn.gap"]; gap != nil {
		c.gaps[values["wardyn.run_id"].GetStringValue()] += int(gap.GetKvlistValue().GetValues()[0].GetValue().GetIntValue())
	}
}

func (c *collector) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// arrived is how many different records came, and how many it was told are
// missing.
func (c *collector) arrived() (records, gaps int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.gaps {
		gaps += n
	}
	return len(c.flows), gaps
}

func (c *collector) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// export begins to send to the collector out of a spool of at most limit bytes.
func (c *collector) export(t *testing.T, dir string, limit int64, log io.Writer) *Exporter {
	t.Helper()
	return c.exportWaiting(t, dir, limit, log, time.Millisecond, 10*time.Millisecond)
}

// exportWaiting is export with the pauses after failures.
func (c *collector) exportWaiting(t *testing.T, dir string, limit int64, log io.Writer, wait, longest time.Duration) *Exporter {
	t.Helper()
	e := New(Options{
		Dir: dir, Limit: limit, URL: c.URL + "/v1/logs", Node: "node-1", Wait: wait, MaxWait: longest,
		Headers: func() (http.Header, error) { return http.Header{"X-Key": {"the-key"}}, nil },
		Log:     slog.New(slog.NewTextHandler(log, nil)),
	})
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func take(t *testing.T, e *Exporter, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		takeOf(t, e, "", uuid.New(), fmt.Sprint("flow-", i))
	}
}

// takeOf has a record of somebody's exported.
func takeOf(t *testing.T, e *Exporter, namespace string, run uuid.UUID, flow string) {
	t.Helper()
	r := control.Record{V: 1, RunID: run, FlowID: flow, Time: time.Now(), Kind: "decision", Decision: egress.Allow, Host: "api.example", Port: 443}
	if err := e.Take(control.OwnedRecord{Owner: control.Owner{Namespace: namespace, Job: "j"}, Record: r}); err != nil {
		t.Fatal(err)
	}
}

// A collector that is away, a spool that is full and a driver that ends: each
// record arrives, or is among those that the collector is told are missing.
func TestE121NothingIsLostSilently(t *testing.T) {
	c, dir, log := newCollector(t), filepath.Join(t.TempDir(), "otlp"), &testenv.Buffer{}
	c.status = http.StatusServiceUnavailable
	const limit = 16 << 10
	first := c.export(t, dir, limit, log)
	take(t, first, 0, 200)
	testenv.Eventually(t, "a try", func() bool { return c.requests() > 2 })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.arrived(); n != 0 {
		t.Errorf("%d records were taken by a collector that takes none", n)
	}
	for _, name := range []string{headName, tailName} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil && fi.Size() > limit {
			t.Errorf("%s has %d bytes", name, fi.Size())
		}
	}
	// What a process left that was killed at a write.
	tail, err := os.OpenFile(filepath.Join(dir, tailName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(tail, `{"flow_id":"half a rec`)
	tail.Close()

	second := c.export(t, dir, limit, log)
	take(t, second, 200, 210)
	before := c.requests()
	testenv.Eventually(t, "another try", func() bool { return c.requests() > before })
	c.set(func() { c.status = 0 })
	testenv.Eventually(t, "all of 210", func() bool { n, gaps := c.arrived(); return n+gaps == 210 })
	n, gaps := c.arrived()
	if n < 20 || gaps < 20 {
		t.Errorf("%d arrived and %d are missing; both was to happen", n, gaps)
	}
	take(t, second, 300, 310)
	testenv.Eventually(t, "what comes after", func() bool { after, _ := c.arrived(); return after == n+10 })
	testenv.Eventually(t, "the good news", func() bool { return strings.Contains(log.String(), "takes decision records again") })
	for flow, times := range c.flows {
		if times != 1 {
			t.Errorf("%s came %d times", flow, times)
		}
	}
	if got := log.String(); strings.Count(got, "are not delivered") != 2 || strings.Contains(got, "the-key") {
		t.Errorf("the log:\n%s", got)
	}
}

// E121: a driver that ends beside its successor has the spool to itself, and
// what the successor is given comes after.
func TestE121OneProcessHasTheSpool(t *testing.T) {
	c, dir, log := newCollector(t), t.TempDir(), &testenv.Buffer{}
	first := c.export(t, dir, 1<<20, io.Discard)
	second := c.export(t, dir, 1<<20, log)
	take(t, first, 0, 5)
	if err := second.Take(control.OwnedRecord{}); err == nil {
		t.Error("taken by one that does not have the spool")
	}
	testenv.Eventually(t, "the reason", func() bool { return strings.Contains(log.String(), errTaken.Error()) })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the spool of the second", func() bool { return second.running() })
	take(t, second, 5, 10)
	testenv.Eventually(t, "all of them", func() bool { n, gaps := c.arrived(); return n == 10 && gaps == 0 })
	third := c.export(t, dir, 1<<20, io.Discard)
	if err := third.Close(); err != nil || third.running() {
		t.Errorf("one that ends while it waits: %v", err)
	}
}

func (e *Exporter) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spool != nil
}

// What a collector says of a request decides whether the same comes again.
func TestE121AnswersOfACollector(t *testing.T) {
	t.Run("too large", func(t *testing.T) {
		c := newCollector(t)
		c.status, c.most = 503, 3
		e := c.export(t, t.TempDir(), 1<<20, io.Discard)
		take(t, e, 0, 50)
		c.set(func() { c.status = 0 })
		testenv.Eventually(t, "all in small requests", func() bool { n, _ := c.arrived(); return n == 50 })
		if _, gaps := c.arrived(); gaps != 0 {
			t.Errorf("%d given up", gaps)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		c, log := newCollector(t), &testenv.Buffer{}
		c.status = 400
		e := c.export(t, t.TempDir(), 1<<20, log)
		take(t, e, 0, 5)
		testenv.Eventually(t, "the refusal of all", func() bool { return strings.Contains(log.String(), "cannot be delivered") && e.waiting() == 0 })
		c.set(func() { c.status = 0 })
		testenv.Eventually(t, "the gap", func() bool { _, gaps := c.arrived(); return gaps == 5 })
	})
	t.Run("in part", func(t *testing.T) {
		c, log := newCollector(t), &testenv.Buffer{}
		c.answer = "\x0a\x09\x08\x02\x12\x05no\x1b[m" // two records, and why
		take(t, c.export(t, t.TempDir(), 1<<20, log), 0, 5)
		testenv.Eventually(t, "what the log says of it", func() bool { return strings.Contains(log.String(), "records=2") })
		if strings.Contains(log.String(), "\x1b") {
			t.Error("what the collector says is not escaped")
		}
	})
	for _, status := range []int{302, 401, 404, 429, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			c := newCollector(t)
			c.status = status
			e := c.export(t, t.TempDir(), 1<<20, io.Discard)
			take(t, e, 0, 5)
			testenv.Eventually(t, "more tries", func() bool { return c.requests() > 2 })
			c.set(func() { c.status = 0 })
			testenv.Eventually(t, "all of them", func() bool { n, gaps := c.arrived(); return n == 5 && gaps == 0 })
		})
	}
}

func (e *Exporter) waiting() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spool.waiting()
}

func TestPauses(t *testing.T) {
	e := New(Options{Log: slog.New(slog.DiscardHandler)})
	busy := &laterError{err: io.EOF, after: 20 * time.Second}
	for _, c := range []struct {
		err        error
		last, want time.Duration
	}{
		{io.EOF, 0, time.Second}, {io.EOF, 8 * time.Second, 16 * time.Second}, {io.EOF, 50 * time.Second, time.Minute}, {busy, 0, 20 * time.Second},
		{&laterError{err: io.EOF, after: time.Hour}, time.Second, time.Minute},
	} {
		if got := e.pauseAfter(c.err, c.last); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.err, c.last, got, c.want)
		}
	}
}

// Records that come before Start are not taken, so their sidecar keeps them.
func TestNothingIsTakenUnlessItRuns(t *testing.T) {
	e := New(Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err := e.Take(control.OwnedRecord{}); err == nil {
		t.Error("taken")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
