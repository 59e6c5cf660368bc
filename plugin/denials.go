package plugin

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// loudDenials are told one by one; clients keep ten events a task.
const loudDenials = 3

// denials tells of a run's refused requests without drowning everything else
// that happens to the task.
type denials struct{ *rationed }

func newDenials(tell func(string, ...string)) *denials {
	return &denials{newRationed(loudDenials, tell, func(n int, last string) string {
		return fmt.Sprintf("%d more requests refused, the latest to %s; nomad alloc exec ALLOC wardyn decisions shows them all", n, last)
	})}
}

// hear takes one decision; only refusals are told.
func (d *denials) hear(log egress.DecisionLog) {
	if log.Flow != nil && log.Flow.Direction == egress.Inbound {
		return // a client turned away; the task asked for nothing
	}
	if log.Decision != egress.Deny || log.Flow != nil && log.Flow.Kind != "" && log.Flow.Kind != "decision" {
		return
	}
	host := safeText(log.Request.Host + ":" + strconv.Itoa(log.Request.Port))
	d.say(host, denialText(host, log), "host", host, "rule", safeText(log.RuleSource))
}

func denialText(host string, log egress.DecisionLog) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Request refused: %s (%s)", host, safeText(log.RuleSource))
	if log.Flow != nil && log.Flow.Rule != "" {
		fmt.Fprintf(&b, ", rule %s", safeText(log.Flow.Rule))
	}
	if log.Cause != "" {
		fmt.Fprintf(&b, ": %s", safeText(log.Cause))
	}
	if log.Flow != nil && log.Flow.Hint != "" {
		fmt.Fprintf(&b, "; %s", safeText(log.Flow.Hint))
	}
	return b.String()
}

// plainText makes text that a sandbox may have shaped fit for a terminal.
func plainText(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// safeText makes text that a sandbox may have shaped fit to be shown anywhere:
// plain ASCII, nothing that a terminal, a table or a page would act on.
func safeText(s string) string {
	const most = 300
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	q := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "|", `\u007c`).Replace(plainText(s))
	if cut {
		q += "..."
	}
	return q
}
