package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// TestHealth: results by their first letters, and what the status is after each.
func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		check    jobfile.Check
		begins   Status
		in, want string
	}{
		"each result counts":               {jobfile.Check{Provider: "consul"}, Critical, "p w c p", "p w c p"},
		"nomad begins pending":             {jobfile.Check{Provider: "nomad", InitialStatus: "passing"}, Pending, "p", "p"},
		"as the job says":                  {jobfile.Check{Provider: "consul", InitialStatus: "warning"}, Warning, "p", "p"},
		"the first success counts at once": {jobfile.Check{Provider: "consul", SuccessBeforePassing: 3}, Critical, "p c p p p", "p c c c p"},
		"a failure breaks the row":         {jobfile.Check{Provider: "consul", SuccessBeforePassing: 2}, Critical, "c p c p p", "c c c c p"},
		"the first failure counts at once": {jobfile.Check{Provider: "consul", FailuresBeforeCritical: 3, InitialStatus: "passing"}, Passing, "c p c c c", "c p p p c"},
		"a warning on the way":             {jobfile.Check{Provider: "consul", FailuresBeforeCritical: 3, FailuresBeforeWarning: 2}, Critical, "p c c c", "p p w c"},
		"a warning is a success":           {jobfile.Check{Provider: "consul", FailuresBeforeCritical: 2}, Critical, "p c w c c", "p p w w c"},
	} {
		h := newHealth(c.check)
		if h.status != c.begins {
			t.Errorf("%s: begins %s, want %s", name, h.status, c.begins)
		}
		var got []string
		for _, letter := range strings.Fields(c.in) {
			h.take(map[string]Status{"p": Passing, "w": Warning, "c": Critical}[letter])
			got = append(got, string(h.status[:1]))
		}
		if have := strings.Join(got, " "); have != c.want {
			t.Errorf("%s: %s gives %s, want %s", name, c.in, have, c.want)
		}
	}
}

// TestPatience: statuses a second apart, and the second at which a restart is due.
func TestPatience(t *testing.T) {
	check := func(limit int, grace time.Duration, lenient bool) jobfile.Check {
		return jobfile.Check{Interval: 3 * time.Second, Restart: &jobfile.CheckRestart{Limit: limit, Grace: grace, IgnoreWarnings: lenient}}
	}
	for name, c := range map[string]struct {
		check    jobfile.Check
		statuses string
		restart  int // -1 is never
	}{
		"the first failure of one":      {check(1, 0, false), "pppc", 3},
		"three results take two breaks": {check(3, 0, false), "pccccccc", 7},
		"one second less is no restart": {check(3, 0, false), "pcccccc", -1},
		"well again in between":         {check(2, 0, false), "ccpccc", -1},
		"grace does not count":          {check(2, 4*time.Second, false), "cccccccc", 7},
		"and ends on its second":        {check(1, 4*time.Second, false), "ccccc", 4},
		"a warning counts":              {check(1, 0, false), "pw", 1},
		"unless it is ignored":          {check(1, 0, true), "pwww", -1},
		"pending counts":                {check(2, 0, false), "????", 3},
	} {
		now := time.Now()
		p, got := newPatience(c.check, now), -1
		for i, letter := range c.statuses {
			s := map[rune]Status{'p': Passing, 'w': Warning, 'c': Critical, '?': Pending}[letter]
			if p.over(s, now.Add(time.Duration(i)*time.Second)) {
				got = i
				break
			}
		}
		if got != c.restart {
			t.Errorf("%s: restart at %d, want %d", name, got, c.restart)
		}
	}
}

func TestLastLine(t *testing.T) {
	long := strings.Repeat("x", longestLine-1) + "é"
	for in, want := range map[string]string{
		"": "", "\n \n": "", "a": "a", "a\nb\r\n\n": "b", "  a b \n": "a b",
		long[:longestLine-1]: long[:longestLine-1], long: long[:longestLine-1] + "...",
	} {
		if got := lastLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
