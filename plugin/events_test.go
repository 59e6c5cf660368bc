package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func denied(host string) egress.DecisionLog {
	return egress.DecisionLog{
		Request: egress.Request{Host: host, Port: 443}, Decision: egress.Deny, RuleSource: "policy:default-deny",
		Flow: &egress.FlowDetail{Kind: "decision", Hint: "add it to egress.allow"},
	}
}

// TestI4DenialsBecomeEvents end to end.
func TestI4DenialsBecomeEvents(t *testing.T) {
	b := newBench(t, benchOptions{})
	c := args("idle")
	c["dns_servers"] = []any{"192.0.2.53"}
	tc, h := b.start("web", c)
	run := RunID(TaskID(tc.ID))
	b.control.post(run, denied("a.example"))
	b.eventually("three events", func() bool { return len(b.said(tc.ID)) == 3 })
	all := strings.Join(b.said(tc.ID), "\n")
	for _, words := range []string{"started under CC2", "dns_servers has no effect", "a.example:443 (policy:default-deny); add it to egress.allow"} {
		if !strings.Contains(all, words) {
			t.Errorf("%q is not in %s", words, all)
		}
	}
	b.mu.Lock()
	for _, e := range b.events {
		if e.AllocID != tc.AllocID || e.TaskName != "web" || e.Time.IsZero() {
			t.Errorf("event %+v cannot be routed", e)
		}
	}
	b.mu.Unlock()
	// Heard after a restart too.
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	b.eventually("the control plane is back", func() bool { b.control.mu.Lock(); defer b.control.mu.Unlock(); return len(b.control.resumed) == 1 })
	b.control.post(run, denied("b.example"))
	b.eventually("the denial after the restart", func() bool { return strings.Contains(strings.Join(b.said(tc.ID), "\n"), "b.example") })
	b.destroy(tc.ID)
}

func TestK36DenialsAreFew(t *testing.T) {
	var told []string
	var due func()
	d := newDenials(func(m string, _ ...string) { told = append(told, m) })
	timers := 0
	d.after = func(after time.Duration, f func()) func() bool {
		if after != summaryAfter {
			t.Errorf("summary after %s", after)
		}
		timers++
		due = f
		return func() bool { return true }
	}
	for i := range 10 {
		d.hear(denied(fmt.Sprintf("h%d.example", i)))
		d.hear(egress.DecisionLog{Decision: egress.Allow})
		d.hear(egress.DecisionLog{Decision: egress.Deny, Flow: &egress.FlowDetail{Kind: "end"}})
	}
	if len(told) != loudDenials || timers != 1 {
		t.Fatalf("told %v with %d timers", told, timers)
	}
	due()
	if len(told) != loudDenials+1 || !strings.HasPrefix(told[3], "7 more requests refused, the latest to h9.example:443") {
		t.Errorf("told %v", told)
	}
	d.summarise() // nothing new
	d.hear(denied("late.example"))
	d.summarise() // at the task's end
	if len(told) != loudDenials+2 || !strings.HasPrefix(told[4], "1 more") {
		t.Errorf("told %v", told)
	}
}

func TestK36SafeText(t *testing.T) {
	for in, want := range map[string]string{
		"plain.example:443":      "plain.example:443",
		"a\x1b[2J":               `a\x1b[2J`,
		"a\nb\tc":                `a\nb\tc`,
		"<b>&|":                  `\u003cb\u003e\u0026\u007c`,
		"rtl\u202eoverride":      `rtl\u202eoverride`,
		"bad\xff":                `bad\xff`,
		`say "hi"`:               `say "hi"`,
		"":                       "",
		strings.Repeat("x", 400): strings.Repeat("x", 300) + "...",
	} {
		if got := safeText(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEventsWaitForAClient(t *testing.T) {
	e := newEvents()
	tc := &driverpb.TaskConfig{Id: "a/t/1", AllocId: "a", Name: "t"}
	for i := range maxEvents + 3 {
		e.emit(tc, fmt.Sprint(i), "k", "v")
	}
	ev, ok := e.next()
	if !ok || ev.GetMessage() != "3" || ev.GetAnnotations()["k"] != "v" {
		t.Errorf("oldest kept: %v", ev)
	}
	e.back(ev)
	if again, _ := e.next(); again.GetMessage() != "3" {
		t.Errorf("an event that was not sent is lost: %v", again)
	}
	for range maxEvents - 1 {
		ev, ok = e.next()
	}
	if !ok || ev.GetMessage() != fmt.Sprint(maxEvents+2) {
		t.Errorf("last: %v", ev)
	}
	if _, ok := e.next(); ok {
		t.Error("more than there were")
	}
}

func TestLogHandler(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(newLogHandler(wire.NewLogger(&buf)))
	log.With("alloc_id", "a").WithGroup("g").With("k", 1).Error("broken",
		"error", errors.New("why"), slog.Group("in", "x", "y"), slog.Group("", "flat", true), slog.Attr{})
	for _, want := range []string{`"@level":"error"`, `"@message":"broken"`, `"alloc_id":"a"`, `"g.k":1`, `"g.error":"why"`, `"g.in.x":"y"`, `"g.flat":true`} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("%s is not in %s", want, buf.String())
		}
	}
	// Trap 4, through our own handler.
	buf.Reset()
	log.Info("x", "@message", 5)
	for line := range strings.Lines(buf.String()) {
		if err := wire.CheckLogLine([]byte(line)); err != nil {
			t.Errorf("trap 4: %v: %s", err, line)
		}
	}
	for l, want := range map[slog.Level]hclog.Level{
		slog.LevelDebug - 4: hclog.Trace, slog.LevelDebug: hclog.Debug, slog.LevelInfo: hclog.Info,
		slog.LevelWarn: hclog.Warn, slog.LevelError: hclog.Error, slog.LevelError + 4: hclog.Error,
	} {
		if got := level(l); got != want {
			t.Errorf("%v: %v, want %v", l, got, want)
		}
	}
	quiet := newLogHandler(hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &buf}))
	if quiet.Enabled(t.Context(), slog.LevelInfo) || !quiet.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("levels below the logger's are enabled")
	}
}

func TestCallErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{fmt.Errorf("x: %w", runner.ErrInvalid), codes.InvalidArgument},
		{runner.ErrDenied, codes.PermissionDenied},
		{errState, codes.FailedPrecondition},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		// Trap 41: these two codes say that the plugin is dead.
		{runner.ErrUnavailable, codes.Unknown},
		{context.Canceled, codes.Unknown},
		{wire.ErrTaskNotFound, codes.NotFound},
	} {
		if got := status.Code(callError(c.err)); got != c.code {
			t.Errorf("%v: %v, want %v", c.err, got, c.code)
		}
	}
	if callError(nil) != nil || startError(nil) != nil {
		t.Error("an error out of nothing")
	}
	if mayPass(fmt.Errorf("%w: %w", runner.ErrInvalid, runner.ErrUnavailable)) != true {
		t.Error("a step that could not be asked is final")
	}
}
