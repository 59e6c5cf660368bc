package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

func TestRestartPolicy(t *testing.T) {
	type end struct {
		after     time.Duration // since the one before
		success   bool
		permanent bool
		restart   bool
		wait      time.Duration
		failed    bool
	}
	policy := func(attempts int, mode string) jobfile.Restart {
		return jobfile.Restart{Attempts: attempts, Interval: time.Minute, Delay: 5 * time.Second, Mode: mode}
	}
	s := time.Second
	for name, c := range map[string]struct {
		policy jobfile.Restart
		batch  bool
		life   *jobfile.Lifecycle
		ends   []end
	}{
		"a batch task that ends well is done":     {policy(3, "fail"), true, nil, []end{{success: true}}},
		"a service that ends well is restarted":   {policy(1, "fail"), false, nil, []end{{success: true, restart: true, wait: 5 * s}, {after: s, success: true, failed: true}}},
		"no attempts":                             {policy(0, "fail"), true, nil, []end{{failed: true}}},
		"a service is not to end, however well":   {policy(0, "fail"), false, nil, []end{{success: true, failed: true}}},
		"attempts are counted":                    {policy(2, "fail"), true, nil, []end{{restart: true, wait: 5 * s}, {after: 59 * s, restart: true, wait: 5 * s}, {after: s, failed: true}}},
		"a new interval counts anew":              {policy(1, "fail"), true, nil, []end{{restart: true, wait: 5 * s}, {after: 61 * s, restart: true, wait: 5 * s}, {after: 60 * s, failed: true}}},
		"delay waits for the next interval":       {policy(1, "delay"), true, nil, []end{{restart: true, wait: 5 * s}, {after: 20 * s, restart: true, wait: 40 * s}, {after: 41 * s, restart: true, wait: 5 * s}}},
		"a start that can't work is not repeated": {policy(3, "delay"), false, nil, []end{{permanent: true, failed: true}}},
		"a prestart task that ended well is done": {policy(3, "fail"), false, &jobfile.Lifecycle{Hook: "prestart"}, []end{{success: true}}},
		"a sidecar of a batch job is restarted":   {policy(3, "fail"), true, &jobfile.Lifecycle{Hook: "prestart", Sidecar: true}, []end{{success: true, restart: true, wait: 5 * s}}},
		"a poststop task is never a sidecar":      {policy(3, "fail"), false, &jobfile.Lifecycle{Hook: "poststop", Sidecar: true}, []end{{success: true}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRestarter(jobfile.Task{Restart: c.policy, Lifecycle: c.life}, c.batch)
			for i, e := range c.ends {
				time.Sleep(e.after)
				got := r.decide(e.success, !e.permanent)
				if got.restart != e.restart || got.wait != e.wait || got.failed != e.failed || got.why == "" {
					t.Errorf("%s: end %d: %+v, want %+v", name, i, got, e)
				}
			}
		})
	}
}
