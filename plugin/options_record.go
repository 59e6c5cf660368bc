package plugin

import (
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// RecordTaskConfig is the part of a task's config that is about recordings.
type RecordTaskConfig struct {
	Record       bool `codec:"record"`
	RecordInside bool `codec:"record_inside"`
}

// addRecordTask adds the schema of RecordTaskConfig.
func addRecordTask(s map[string]*hclspec.Spec) {
	s["record"] = hclspec.Attr("record", hclspec.Bool)
	s["record_inside"] = hclspec.Attr("record_inside", hclspec.Bool)
}

// RecordHostConfig is the part of the plugin's config that is about recordings.
type RecordHostConfig struct {
	Record      string `codec:"record"`
	RecordExec  string `codec:"record_exec"`
	RecordingMB int64  `codec:"recording_mb"`
}

// addRecordHost adds the schema of RecordHostConfig.
func addRecordHost(s map[string]*hclspec.Spec) {
	s["record"] = hclspec.Attr("record", hclspec.String)
	s["record_exec"] = hclspec.Attr("record_exec", hclspec.String)
	s["recording_mb"] = hclspec.Attr("recording_mb", hclspec.Number)
}

// Which commands in a task are recorded.
const (
	execOfRecorded = ""         // those with a terminal, of tasks that are recorded
	execOff        = "off"      // none
	execTerminal   = "terminal" // those with a terminal
	execAll        = "all"
)

// RecordRules are the operator's decisions about recordings.
type RecordRules struct {
	Refuse bool // jobs may not ask for one
	Always bool // of every task
	Exec   string
	Limit  int64 // of one recording, in bytes; 0 is cast.DefaultLimit
}

// mostRecordingMB bounds the size of one recording.
const mostRecordingMB = 64 << 10

func recordRules(f *faults, c RecordHostConfig) RecordRules {
	if !slices.Contains([]string{"", "allow", "refuse", "always"}, c.Record) {
		f.add("record", c.Record, `want "allow", "refuse" or "always"`, "remove the line to let jobs choose")
	}
	if !slices.Contains([]string{execOfRecorded, execOff, execTerminal, execAll}, c.RecordExec) {
		f.add("record_exec", c.RecordExec, `want "off", "terminal" or "all"`, "remove the line to record the terminals of recorded tasks")
	}
	r := RecordRules{Refuse: c.Record == "refuse", Always: c.Record == "always", Exec: c.RecordExec}
	switch {
	case c.RecordingMB < 0 || c.RecordingMB > mostRecordingMB:
		f.add("recording_mb", c.RecordingMB, fmt.Sprintf("want 1 to %d MiB", mostRecordingMB), "remove the line for the default")
	case c.RecordingMB > 0:
		r.Limit = c.RecordingMB << 20
	}
	return r
}

// readRecord reads whether the task is recorded, and whether its sandbox records
// itself too.
func (a *ask) readRecord(c RecordTaskConfig, r RecordRules, f *faults) {
	a.Record, a.RecordInside = c.Record || r.Always, c.RecordInside
	for option, wanted := range map[string]bool{"record": c.Record, "record_inside": c.RecordInside} {
		if wanted && r.Refuse {
			f.add(option, true, "the operator does not allow it (plugin option record)", "remove the line")
		}
	}
	switch {
	case !c.RecordInside:
	case a.NoNetwork:
		f.add("record_inside", true, "what a sandbox records of itself goes out by its proxy, and network_mode = \"none\" has none",
			"use record = true, which records outside of the sandbox")
	case a.Idle:
		f.add("record_inside", true, "an idle task has no command to record", "use record = true, which records the terminals in it")
	}
}
