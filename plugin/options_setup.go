package plugin

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// SetupTaskConfig is the setup option of a task's config.
type SetupTaskConfig struct {
	Setup *SetupConfig `codec:"setup"`
}

// SetupConfig is the setup block.
type SetupConfig struct {
	File    string `codec:"file"`
	Script  string `codec:"script"`
	Base64  string `codec:"script_b64"`
	Timeout string `codec:"timeout"`
	Cache   *bool  `codec:"cache"`
	Env     any    `codec:"env"`
}

// setupSpec adds the schema of SetupTaskConfig.
func setupSpec(s map[string]*hclspec.Spec) {
	m := map[string]*hclspec.Spec{"cache": hclspec.Attr("cache", hclspec.Bool), "env": hclspec.Attr("env", hclspec.Any)}
	for _, name := range []string{"file", "script", "script_b64", "timeout"} {
		m[name] = hclspec.Attr(name, hclspec.String)
	}
	s["setup"] = hclspec.Block("setup", hclspec.Object(m))
}

// SetupPluginConfig is the operator's setup block.
type SetupPluginConfig struct {
	Setup *SetupRulesConfig `codec:"setup"`
}

// SetupRulesConfig says what setups may do and how much is kept of them.
type SetupRulesConfig struct {
	Caps    *[]string `codec:"caps"`
	MaxSize string    `codec:"max_size"`
	MaxAge  string    `codec:"max_age"`
}

func setupPluginSpec(s map[string]*hclspec.Spec) {
	s["setup"] = hclspec.Block("setup", hclspec.Object(map[string]*hclspec.Spec{
		"caps":     hclspec.Attr("caps", hclspec.StringList),
		"max_size": hclspec.Attr("max_size", hclspec.String),
		"max_age":  hclspec.Attr("max_age", hclspec.String),
	}))
}

// SetupRules are the operator's rules for setups.
type SetupRules struct {
	// Caps are what root keeps in a setup's sandbox; nil is the usual list.
	Caps []string
	// MaxBytes and MaxAge bound the images that setups made; 0 is the default.
	MaxBytes int64
	MaxAge   time.Duration
}

// What holds when the operator says nothing. The capabilities are those that
// package managers need.
var (
	defaultSetupCaps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETFCAP", "SETGID", "SETUID"}

	defaultSetupBytes int64 = 20 << 30
	defaultSetupAge         = 30 * 24 * time.Hour
	defaultSetupTime        = 15 * time.Minute
)

func setupRules(f *faults, c *SetupRulesConfig) SetupRules {
	r := SetupRules{Caps: defaultSetupCaps, MaxBytes: defaultSetupBytes, MaxAge: defaultSetupAge}
	if c == nil {
		return r
	}
	if c.Caps != nil {
		r.Caps = []string{}
		for _, name := range *c.Caps {
			n := capName(name)
			if !slices.Contains(grantable, n) {
				f.add("setup.caps", name, "this capability is never given to a sandbox", "remove it")
			}
			r.Caps = append(r.Caps, n)
		}
	}
	if c.MaxSize != "" {
		n, err := sizeMiB(c.MaxSize)
		if err != nil {
			f.add("setup.max_size", c.MaxSize, err.Error(), `for instance "20g"`)
		}
		r.MaxBytes = n << 20
	}
	if c.MaxAge != "" {
		d, err := time.ParseDuration(c.MaxAge)
		if err != nil || d < time.Minute {
			f.add("setup.max_age", c.MaxAge, "want a duration of at least a minute", `for instance "720h"`)
		}
		r.MaxAge = d
	}
	return r
}

// setupAsk is what a task wants done before its image is ready.
type setupAsk struct {
	scriptAsk
	Private bool // the result is not kept
	Env     map[string]string
}

func (a *ask) readSetup(c *SetupConfig, loads bool, f *faults) {
	if c == nil {
		return
	}
	s := readScript("setup", ScriptConfig{File: c.File, Script: c.Script, Base64: c.Base64, Timeout: c.Timeout}, f)
	if s.Timeout == 0 {
		s.Timeout = defaultSetupTime
	}
	env, err := stringMap(c.Env)
	if err != nil {
		f.add("setup.env", nil, err.Error(), `write env { NAME = "value" }`)
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.HasPrefix(k, "WARDYN_") || strings.HasPrefix(k, "RAINIER_") {
			f.add("setup.env", k, "no variable of a setup can have this name", "rename it")
		}
	}
	if loads {
		f.add("setup", nil, "an image that is loaded for one task is no base to keep a result of", "push the image to a registry, or load one in which the setup is done")
	}
	a.Setup = &setupAsk{scriptAsk: *s, Private: c.Cache != nil && !*c.Cache, Env: env}
}
