package checks

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// Check is one check, ready to be run: nothing in it refers to anything any more.
type Check struct {
	jobfile.Check
	// Address is host:port of what a grpc, http or tcp check asks.
	Address string
	// Exec runs a script's command in its task; it ends the command after the
	// timeout. With ErrTaskEnded there is no result.
	Exec func(ctx context.Context, argv []string, timeout time.Duration) (code int, output string, err error)
	// Changed is told the first result and each change of the status after it,
	// with the last line of what the check had to say.
	Changed func(s Status, line string)
	// Restart is called when the check was unwell for too long.
	Restart func()
}

// ErrTaskEnded says that a command failed because its task has ended.
var ErrTaskEnded = errors.New("the task has ended")

// result is what came of asking once.
type result struct {
	status Status // "" is no result
	output string
}

// look is how often a status is looked at for a restart.
const look = time.Second

// Run asks until ctx ends. A script is asked at once, as a client does with a
// task that has just started, anything else after half an interval.
func (c *Check) Run(ctx context.Context) {
	h, told := newHealth(c.Check), Status("")
	ask := time.NewTimer(c.first())
	defer ask.Stop()
	watch, p := c.watch()
	defer watch.Stop()
	results := make(chan result, 1)
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			if !asked.IsZero() {
				<-results // nothing of it is left behind
			}
			return
		case asked = <-ask.C:
			go func() { results <- c.probe(ctx) }()
		case r := <-results:
			took := time.Since(asked)
			asked = time.Time{}
			if ctx.Err() != nil {
				return
			}
			ask.Reset(c.next(took))
			if r.status == "" {
				continue
			}
			if h.take(r.status); h.status != told {
				told = h.status
				c.Changed(told, lastLine(r.output))
			}
		case now := <-watch.C:
			if p.over(h.status, now) {
				c.Restart()
				h, p = newHealth(c.Check), newPatience(c.Check, now)
			}
		}
	}
}

// first is the time until the first probe.
func (c *Check) first() time.Duration {
	if c.Type == "script" {
		return 0
	}
	return c.Interval / 2
}

// next is the time from a result to the next probe. Scripts begin at even
// intervals, what else is asked ends so.
func (c *Check) next(took time.Duration) time.Duration {
	if c.Type == "script" {
		return max(0, c.Interval-took)
	}
	return c.Interval
}

// watch gives the times to look for a restart: none where nothing is restarted.
func (c *Check) watch() (*time.Ticker, *patience) {
	t := time.NewTicker(look)
	if c.Check.Restart == nil {
		t.Stop()
		return t, nil
	}
	return t, newPatience(c.Check, time.Now())
}

// longestLine is how much of a line is told, in bytes.
const longestLine = 300

// lastLine is the last line with something on it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(text) > longestLine {
		text = strings.ToValidUTF8(text[:longestLine], "") + "..."
	}
	return text
}
