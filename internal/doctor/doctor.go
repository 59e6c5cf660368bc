package doctor

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities. An Error keeps tasks from running, or takes away a wall they
// rely on; a Warning costs something that is named; Info is how things are.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

func (s Severity) rank() int {
	return slices.Index([]Severity{Error, Warning, Info}, s)
}

// Finding is one thing about a node.
type Finding struct {
	// ID is a stable short name, for scripts.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`
	Text     string   `json:"text"`
	// Remedy is what to do; there is one wherever something is amiss.
	Remedy string `json:"remedy,omitempty"`
}

// Examine judges the facts: the worst findings first, and otherwise in the
// order of config, engine, runtimes, classes, network, disk.
func Examine(f Facts) []Finding {
	x := &examination{facts: f}
	x.config()
	if f.EngineErr != "" {
		x.add(Error, "engine-away", "engine", fmt.Sprintf("the Docker engine at %s does not answer: %s", f.Endpoint, f.EngineErr),
			"start it, or set the plugin option endpoint to its socket")
	} else {
		x.engine()
		x.runtimes()
		x.classes()
	}
	x.network()
	x.disks()
	slices.SortStableFunc(x.found, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return x.found
}

// Worst is the severity of the worst finding; Info without any.
func Worst(list []Finding) Severity {
	worst := Info
	for _, f := range list {
		if f.Severity.rank() < worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// examination is one under way.
type examination struct {
	facts Facts
	found []Finding
}

func (x *examination) add(s Severity, id, subject, text, remedy string) {
	x.found = append(x.found, Finding{ID: id, Severity: s, Subject: subject, Text: text, Remedy: remedy})
}

func (x *examination) config() {
	if !x.facts.Host.Root {
		x.add(Warning, "not-root", "doctor", "it does not run as root, so the data dir and some of the host could not be looked at", "run it as root, as the agent runs")
	}
	for _, fault := range x.facts.Config {
		x.add(Error, "config", "plugin config", fault, "correct the plugin block of the agent's configuration; with an unknown option the agent does not start")
	}
	for _, f := range x.facts.Files {
		switch {
		case f.Fault == "":
		case f.Needed:
			x.add(Error, "file", "plugin option "+f.Option, fmt.Sprintf("%s: %s", f.Path, f.Fault), "put it right: until then the driver is unhealthy, and no task starts")
		default:
			x.add(Warning, "file", "plugin option "+f.Option, fmt.Sprintf("%s: %s", f.Path, f.Fault), "put it right before a task needs it: that one would not start, or go without")
		}
	}
}
