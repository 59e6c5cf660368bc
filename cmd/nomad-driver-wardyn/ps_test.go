package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
)

// TestRunsOf (K40): containers and records are one list, each run once.
func TestRunsOf(t *testing.T) {
	id := func(n byte) uuid.UUID { return uuid.UUID{15: n} }
	at := time.Unix(1000, 0)
	listed := []runner.Listed{
		{Ref: docker.AgentName(id(1)), Running: true, Suspended: true, Labels: map[string]string{"wardyn.task": "a"}},
		{Ref: docker.AgentName(id(2)), Running: true},
		{Ref: docker.AgentName(id(3))},
		{Ref: docker.AgentName(id(5))},
		{Ref: "somebody"},
	}
	records := []datadir.Record{
		{RunID: id(5), CreatedAt: at.Add(4)},
		{RunID: id(4), CreatedAt: at.Add(3), Labels: map[string]string{"wardyn.job": "j"}},
		{RunID: id(3), CreatedAt: at.Add(2)},
		{RunID: id(2), CreatedAt: at.Add(1), Class: "CC1"},
		{RunID: id(1), CreatedAt: at, Image: "i"},
	}
	var got []string
	parked := t.TempDir()
	for n := range byte(6) { // one that runs was resumed while its mark could not be removed
		if n == 1 || n == 2 || n == 5 {
			if err := os.WriteFile(filepath.Join(parked, id(n).String()+".json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs := runsOf(listed, records, parked)
	for _, r := range runs {
		got = append(got, r.State)
	}
	if want := []string{"suspended", "running", "exited", "record", "parked"}; !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	if runs[0].Task != "a" || runs[0].Image != "i" || runs[1].Class != "CC1" || runs[3].Job != "j" {
		t.Errorf("%+v", runs)
	}
}

// TestElsewhere: who holds part of a pool, without this installation's own
// networks, each range once.
func TestElsewhere(t *testing.T) {
	p := netip.MustParsePrefix
	nets := []docker.EngineNetwork{
		{Name: "ours", Instance: "me", Subnets: []netip.Prefix{p("10.213.0.0/29")}},
		{Name: "another", Instance: "you", Subnets: []netip.Prefix{p("10.213.0.8/29")}},
		{Name: "strange", Subnets: []netip.Prefix{p("10.213.1.0/24"), p("172.17.0.0/16")}},
	}
	host := []netip.Prefix{p("10.213.0.0/29"), p("10.213.1.0/24"), p("10.213.2.0/24"), p("10.213.2.0/24"), p("192.168.0.0/24")}
	got := elsewhere(p("10.213.0.0/16"), host, nets, "me")
	if len(got) != 3 || !got[0].Alike || got[0].Prefix != p("10.213.0.8/29") || got[1].Alike || got[1].Holder != "network strange of the engine" ||
		got[2].Prefix != p("10.213.2.0/24") || got[2].Holder != "a route of the host" {
		t.Errorf("%+v", got)
	}
	// Before there is an instance, nothing is ours, and a network without a
	// label is nobody's.
	if got := elsewhere(p("10.213.0.0/16"), nil, nets, ""); len(got) != 3 {
		t.Errorf("%+v", got)
	}
}
