package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
)

// installed lists what an installation has on this machine.
func installed(ctx context.Context, h plugin.HostConfig) (cli.Installation, error) {
	if err := checkInstalled(h); err != nil {
		return cli.Installation{}, err
	}
	p, err := assemble(h, slog.New(slog.DiscardHandler))
	if err != nil {
		return cli.Installation{}, err
	}
	defer p.runner.Close()
	listed, err := p.runner.ListSandboxes(ctx)
	if err != nil {
		return cli.Installation{}, err
	}
	records, err := p.dir.Records()
	if err != nil {
		return cli.Installation{}, err
	}
	out := cli.Installation{Instance: p.dir.Instance(), Runs: runsOf(listed, records, p.parkDir())}
	for _, r := range out.Runs {
		if r.State == "running" || r.State == "suspended" {
			out.Slots.Used++
		}
	}
	if out.Warm, err = p.runner.WarmSlots(); err != nil {
		return cli.Installation{}, err
	}
	subnets, _ := h.Pools()
	out.Slots.Total, out.Networks.Total = slots(h), 1<<(docker.RunBits-subnets.Bits())
	out.Capacity = plugin.CapacityWord(out.Slots.Used, out.Slots.Total)
	out.Networks.Used, err = netpool.Count(dataDir(h), "runs")
	return out, err
}

// runsOf puts together what the engine shows and what the data dir remembers,
// the oldest first. parkDir has the marks of parked tasks, whose containers look
// like those of tasks that have ended.
func runsOf(listed []runner.Listed, records []datadir.Record, parkDir string) []cli.Run {
	known := map[uuid.UUID]datadir.Record{}
	for _, r := range records {
		known[r.RunID] = r
	}
	out := []cli.Run{}
	for _, l := range listed {
		id, err := docker.RunOf(l.Ref)
		if err != nil {
			continue // a name that is none of a sandbox
		}
		r := known[id]
		delete(known, id)
		state := "exited"
		switch {
		case l.Suspended:
			state = "suspended"
		case l.Running:
			state = "running"
		case plugin.Parked(parkDir, id):
			state = "parked"
		}
		out = append(out, runOf(l.Ref, state, l.Labels, r))
	}
	for id, r := range known {
		out = append(out, runOf(docker.AgentName(id), "record", r.Labels, r))
	}
	slices.SortFunc(out, func(a, b cli.Run) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Ref, b.Ref))
	})
	return out
}

func runOf(ref, state string, labels map[string]string, r datadir.Record) cli.Run {
	return cli.Run{
		Ref: ref, State: state, Class: r.Class, Image: r.Image, Created: r.CreatedAt,
		Namespace: labels["wardyn.namespace"], Job: labels["wardyn.job"], Group: labels["wardyn.group"],
		Task: labels["wardyn.task"], Alloc: labels["wardyn.alloc-id"],
	}
}
