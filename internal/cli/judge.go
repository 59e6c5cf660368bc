package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// Node is what an engine and its host say before anything is placed on them.
type Node struct {
	View plugin.NodeView
	// Check says what would keep a sandbox from being made there, and a word
	// on what could not be told.
	Check func(ctx context.Context, r plugin.Review) (faults []plugin.Fault, note string)
	// Close lets go of the engine.
	Close func()
}

// judge says what would become of job files.
type judge struct {
	host   plugin.HostConfig
	node   *Node // nil when nobody was asked
	values jobfile.Values
}

// problem is one reason why a file is refused.
type problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Task string `json:"task,omitempty"`
	plugin.Fault
}

func (p problem) String() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Task != "" {
		at += fmt.Sprintf(": task %q", p.Task)
	}
	if p.Field == "" {
		return at + ": " + p.Reason
	}
	return at + ": " + p.Fault.String()
}

// fileVerdict is what became of one job file.
type fileVerdict struct {
	File   string        `json:"file"`
	Tasks  []taskVerdict `json:"tasks"`
	Faults []problem     `json:"faults"`
	Notes  []string      `json:"notes,omitempty"`
}

// taskVerdict is one task of it.
type taskVerdict struct {
	Group    string           `json:"group"`
	Task     string           `json:"task"`
	Settings []plugin.Setting `json:"settings,omitempty"`
}

// file judges a job file as a whole. The error is that it could not be read.
func (j judge) file(ctx context.Context, path string) (fileVerdict, error) {
	out := fileVerdict{File: path, Tasks: []taskVerdict{}, Faults: []problem{}}
	if strings.HasSuffix(path, ".json") {
		return out, fmt.Errorf("%s: job files in JSON are not read; use the HCL form", path)
	}
	job, err := jobfile.ParseFile(path, jobfile.Options{Values: j.values, Cluster: true})
	var bad *jobfile.Error
	switch {
	case errors.As(err, &bad):
		for _, p := range bad.Problems {
			out.Faults = append(out.Faults, problem{File: p.Pos.File, Line: p.Pos.Line, Fault: plugin.Fault{Reason: p.Text}})
		}
	case err != nil:
		return out, err
	}
	if job != nil {
		for _, n := range job.Unread {
			out.note(n.Pos, "%s", n.Text)
		}
		for _, g := range job.Groups {
			for _, t := range g.Tasks {
				j.task(ctx, job, g, t, &out)
			}
			j.group(g, &out)
			j.mesh(g, &out)
		}
	}
	slices.SortStableFunc(out.Faults, func(a, b problem) int { return cmp.Compare(a.Line, b.Line) })
	return out, nil
}

// group says what of a group has no effect on tasks of this driver, or keeps
// Nomad from starting any.
func (j judge) group(g jobfile.Group, out *fileVerdict) {
	if g.Network == nil {
		return
	}
	for _, t := range g.Tasks {
		if t.Driver != plugin.Name {
			continue
		}
		if g.Network.Hostname != "" {
			out.fault(t, plugin.GroupHostnameFault(g.Network.Hostname))
		}
		if g.Network.Mode == "host" {
			out.note(t.Pos, "task %q: the group's network mode is host; the sandbox has a network of its own all the same", t.Name)
		}
	}
}

func (v *fileVerdict) note(at jobfile.Pos, format string, args ...any) {
	v.Notes = append(v.Notes, at.String()+": "+fmt.Sprintf(format, args...))
}

// task judges one task by its config, the operator's and the node.
func (j judge) task(ctx context.Context, job *jobfile.Job, g jobfile.Group, t jobfile.Task, out *fileVerdict) {
	if t.Driver != plugin.Name {
		if t.Driver != "" { // else that was complained of
			out.note(t.Pos, "task %q: driver %q, passed over%s", t.Name, t.Driver, meant("", t.Driver, []string{plugin.Name}))
		}
		return
	}
	r := plugin.ReviewTask(draftOf(job, g, t), j.host, j.view())
	for _, f := range r.Faults {
		if !contains(t.Unread, f.Field) { // its value is wrong already, or a function's that is not known here
			out.fault(t, f)
		}
	}
	if len(out.Faults) == 0 { // else that is likely why
		for _, name := range t.Unread {
			out.note(placeOf(t, name, ""), "task %q: %s uses a function that is not known here and was not checked", t.Name, name)
		}
	}
	for _, name := range r.Unchecked {
		out.note(placeOf(t, name, ""), "task %q: %s depends on what only the client knows and was not checked", t.Name, name)
	}
	j.reach(t, r, out)
	for _, n := range r.Notes {
		out.note(t.Pos, "task %q: %s", t.Name, n)
	}
	if t.Resources.MemoryMaxMB != 0 { // only an agent can tell, see the plugin option agent_api
		out.note(placeOf(t, "resources.memory_max", ""), "task %q: memory_max counts where the scheduler allows memory oversubscription; elsewhere Nomad drops it without a word, and memory is the limit", t.Name)
	}
	if j.node != nil && r.Sandbox != nil && len(t.Unread) == 0 {
		faults, note := j.node.Check(ctx, r)
		for _, f := range faults {
			out.fault(t, f)
		}
		if note != "" {
			out.note(placeOf(t, "image", ""), "task %q: %s", t.Name, note)
		}
	}
	out.Tasks = append(out.Tasks, taskVerdict{Group: g.Name, Task: t.Name, Settings: r.Settings})
}

func contains(list []string, field string) bool {
	for _, l := range list {
		if field == l || strings.HasPrefix(field, l+".") {
			return true
		}
	}
	return false
}

func (v *fileVerdict) fault(t jobfile.Task, f plugin.Fault) {
	value := f.Value
	if s, err := strconv.Unquote(value); err == nil {
		value = s
	}
	at := placeOf(t, f.Field, value)
	v.Faults = append(v.Faults, problem{File: at.File, Line: at.Line, Task: t.Name, Fault: f})
}

// placeOf is the line of an option, or of the task that lacks it.
func placeOf(t jobfile.Task, field, value string) jobfile.Pos {
	if field == "device" || field == "memory" || field == "cpu" {
		field = "resources." + field
	}
	if at, ok := t.Places.Find(field, value); ok {
		return at
	}
	return t.Pos
}

// inSecrets is what a template's destination is called in the task's secrets
// folder, when it lies there.
func inSecrets(destination string) (name string, ok bool) {
	if rest, ok := strings.CutPrefix(destination, "${NOMAD_SECRETS_DIR}/"); ok {
		destination = "secrets/" + rest
	}
	rest, ok := strings.CutPrefix(path.Clean(destination), "secrets/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}
