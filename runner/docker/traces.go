package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var _ runner.Sweeper = (*Runner)(nil)

// Names of what a run can have.
const (
	partContainer = "container"
	partSidecar   = "sidecar"
	partNetwork   = "network"
	partHolder    = "holder"
	partLease     = "lease"
	partFolder    = "run directory"
	partRecord    = "record"
	partImage     = "image in the making"
)

// Traces finds what is left of runs: on the engine by label, name and proof
// together, on disk by name. An object of the engine of which the data dir
// knows nothing is a stranger, as is one with a name we do not give: labels
// alone prove nothing, since a container inherits those of its image.
func (r *Runner) Traces(ctx context.Context) (runner.Traces, error) {
	disk, err := r.diskTraces()
	if err != nil {
		return runner.Traces{}, fmt.Errorf("look for leftovers: %w", err)
	}
	s := sweep{r: r, parts: disk, known: map[uuid.UUID]bool{}, slots: map[uuid.UUID]bool{}}
	slots, err := r.slots().list()
	if err != nil {
		return runner.Traces{}, fmt.Errorf("look for leftovers: %w", err)
	}
	for _, e := range slots {
		s.slots[e.ID] = true
	}
	for run := range disk {
		s.known[run] = true
	}
	if err := s.engine(ctx); err != nil {
		return runner.Traces{}, fmt.Errorf("look for leftovers: %w", err)
	}
	out := runner.Traces{Strangers: s.strangers}
	for run, parts := range s.parts {
		if !s.slots[run] && !r.making.busy(run) {
			out.Runs = append(out.Runs, runner.Trace{Run: run, Ref: AgentName(run), Parts: parts})
		}
	}
	slices.SortFunc(out.Runs, func(a, b runner.Trace) int { return cmp.Compare(a.Ref, b.Ref) })
	slices.Sort(out.Strangers)
	return out, nil
}

// diskTraces is what the node itself keeps of runs.
func (r *Runner) diskTraces() (map[uuid.UUID][]string, error) {
	parts := map[uuid.UUID][]string{}
	records, err1 := r.opts.Dir.Records()
	for _, rec := range records {
		parts[rec.RunID] = append(parts[rec.RunID], partRecord)
	}
	owners, err2 := r.runs.Owners()
	entries, err3 := os.ReadDir(r.opts.Dir.RunRoot())
	add := func(name, part string) {
		if run, err := uuid.Parse(name); err == nil {
			parts[run] = append(parts[run], part)
		}
	}
	for _, o := range owners {
		add(o, partLease)
	}
	for _, e := range entries {
		add(e.Name(), partFolder)
	}
	committing, err4 := r.committing()
	for _, run := range committing {
		parts[run] = append(parts[run], partImage)
	}
	return parts, errors.Join(err1, err2, err3, err4)
}

// sweep collects what the engine shows.
type sweep struct {
	r         *Runner
	parts     map[uuid.UUID][]string
	known     map[uuid.UUID]bool // by the data dir
	slots     map[uuid.UUID]bool // of the pool, which tends to its own
	strangers []string
}

func (s *sweep) engine(ctx context.Context) error {
	ctx, cancel := call(ctx)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", labelInstance+"="+s.r.opts.Dir.Instance()))
	containers, err := s.r.api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return wrap("list containers", err)
	}
	networks, err := s.r.api.NetworkList(ctx, network.ListOptions{Filters: ours})
	if err != nil {
		return wrap("list networks", err)
	}
	for _, c := range containers {
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		s.add("container", name, c.Labels)
	}
	for _, n := range networks {
		s.add("network", n.Name, n.Labels)
	}
	return nil
}

// prefixes are the beginnings of what a run's objects are called.
var prefixes = map[string]string{agentPrefix: partContainer, proxyPrefix: partSidecar, networkPrefix: partNetwork, holderPrefix: partHolder}

// add judges one object of the engine. Those that are no run's (the egress
// network, probes) are others' business.
func (s *sweep) add(kind, name string, labels map[string]string) {
	if (strings.HasPrefix(name, probePrefix) || labels[labelComponent] == componentEgress) && s.r.owns(name, labels) {
		return
	}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		id, ok := strings.CutPrefix(name, prefix)
		run, err := uuid.Parse(id)
		if ok && err == nil && s.r.owns(name, labels) && (s.known[run] || s.slots[run]) {
			s.parts[run] = append(s.parts[run], prefixes[prefix])
			return
		}
	}
	s.strangers = append(s.strangers, kind+" "+name)
}
