package plugin

import (
	"cmp"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// ReaperConfig is the plugin's reaper block.
type ReaperConfig struct {
	Enabled *bool  `codec:"enabled"`
	DryRun  bool   `codec:"dry_run"`
	Grace   string `codec:"grace"`
	Period  string `codec:"period"`
}

func reaperSpec() *hclspec.Spec {
	return hclspec.Block("reaper", hclspec.Object(map[string]*hclspec.Spec{
		"enabled": hclspec.Attr("enabled", hclspec.Bool),
		"dry_run": hclspec.Attr("dry_run", hclspec.Bool),
		"grace":   hclspec.Attr("grace", hclspec.String),
		"period":  hclspec.Attr("period", hclspec.String),
	}))
}

// reaperPlan says what becomes of what no task accounts for.
type reaperPlan struct {
	Off, DryRun bool
	// Grace is how long something must have been without a task, and how long
	// after the first fingerprint nothing is removed; 0 is the default.
	Grace time.Duration
	// Period is how often it is looked for; 0 is the default.
	Period time.Duration
}

// times are the plan's with the defaults filled in.
func (p reaperPlan) times() (grace, period time.Duration) {
	return cmp.Or(p.Grace, defaultGrace), cmp.Or(p.Period, defaultPeriod)
}

// What holds where the operator says nothing: a client recovers its tasks
// within seconds of its start, and nothing is in a hurry.
const (
	defaultGrace  = 5 * time.Minute
	defaultPeriod = 5 * time.Minute
	// shortestGrace keeps a typing mistake from removing what is about to be
	// recovered.
	shortestGrace = 5 * time.Second
)

func reaperOptions(f *faults, c *ReaperConfig) reaperPlan {
	var p reaperPlan
	if c == nil {
		return p
	}
	p.Off, p.DryRun = c.Enabled != nil && !*c.Enabled, c.DryRun
	p.Grace = reaperTime(f, "reaper.grace", c.Grace, shortestGrace)
	p.Period = reaperTime(f, "reaper.period", c.Period, time.Second)
	return p
}

func reaperTime(f *faults, field, text string, least time.Duration) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		f.add(field, text, "want a time of at least "+least.String(), `for instance "5m"`)
		return 0
	}
	return d
}
