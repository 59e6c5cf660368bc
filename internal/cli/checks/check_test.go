package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// diary is what a check does, with the second at which it does it.
type diary struct {
	began time.Time
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%.1f ", time.Since(d.began).Seconds())+fmt.Sprintf(format, args...))
}

// script is a check whose command exits with the codes one after the other, the
// last for ever; each takes a tenth of a second. -1 is cut off, after its timeout of
// two, and -2 finds its task ended.
func (d *diary) script(c jobfile.Check, codes ...int) *Check {
	c.Type, c.Provider, c.Command, c.Interval, c.Timeout = "script", "consul", "x", 3*time.Second, 2*time.Second
	n := 0
	return &Check{
		Check: c,
		Exec: func(ctx context.Context, argv []string, timeout time.Duration) (int, string, error) {
			code := codes[min(n, len(codes)-1)]
			n++
			if code >= 0 {
				time.Sleep(100 * time.Millisecond)
				return code, fmt.Sprintf("out\ncode %d\n", code), nil
			}
			if code == -2 {
				return 0, "", ErrTaskEnded
			}
			select {
			case <-ctx.Done():
				d.note("left")
				return 0, "", ctx.Err()
			case <-time.After(timeout):
				return 0, "", errors.New("cut off")
			}
		},
		Changed: func(s Status, line string) { d.note("%s %s", s, line) },
		Restart: func() { d.note("restart") },
	}
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		check jobfile.Check
		codes []int
		lasts float64 // seconds
		want  []string
	}{
		"at once, and each change": {jobfile.Check{}, []int{0, 0, 1, 1, 2, 0}, 20,
			[]string{"0.1 passing code 0", "6.1 warning code 1", "12.1 critical code 2", "15.1 passing code 0"}},
		"a first failure is told": {jobfile.Check{}, []int{2}, 10, []string{"0.1 critical code 2"}},
		"cut off again and again": {jobfile.Check{}, []int{-1, 0, -1}, 8.5,
			[]string{"2.0 critical cut off", "3.1 passing code 0", "8.0 critical cut off"}},
		"the end of the task is no result": {jobfile.Check{}, []int{0, -2, -2, 1}, 10,
			[]string{"0.1 passing code 0", "9.1 warning code 1"}},
		"ended while it asks": {jobfile.Check{}, []int{-1}, 1, []string{"1.0 left"}},
		"restarted, and again after that": {jobfile.Check{Restart: &jobfile.CheckRestart{Limit: 2, Grace: time.Second}}, []int{2}, 10,
			[]string{"0.1 critical code 2", "4.0 restart", "8.0 restart"}},
		"not restarted": {jobfile.Check{Restart: &jobfile.CheckRestart{Limit: 2}}, []int{0, 2, 0}, 30,
			[]string{"0.1 passing code 0", "3.1 critical code 2", "6.1 passing code 0"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.lasts*float64(time.Second))+time.Millisecond/2)
			defer cancel()
			if name == "ended while it asks" {
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			d := &diary{began: time.Now()}
			d.script(c.check, c.codes...).Run(ctx)
			if !slices.Equal(d.lines, c.want) {
				t.Errorf("%s: %q, want %q", name, d.lines, c.want)
			}
		})
	}
}

// TestFirstProbe: what listens has half an interval to begin with it.
func TestFirstProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{began: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c := &Check{Check: jobfile.Check{Type: "tcp", Provider: "nomad", Interval: 5 * time.Second, Timeout: time.Second}}
		c.Address, c.Changed = "no address", func(s Status, line string) { d.note("%s", s) }
		c.Run(ctx)
		if !slices.Equal(d.lines, []string{"2.5 critical"}) {
			t.Errorf("%q", d.lines)
		}
	})
}
