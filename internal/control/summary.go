package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Bounds of a Summary: a sandbox chooses the hosts it asks for.
const (
	maxHosts = 100
	maxCodes = 64
)

// Summary counts a run's decisions; it is the content of summary.json.
type Summary struct {
	V     int       `json:"v"`
	RunID uuid.UUID `json:"run_id"`
	// First and Last are the times of the first and the latest record.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Pending uint64 `json:"pending"`
	// Inbound counts the flows that came in by the task's ports. They are in
	// Codes and in the bytes, and not among the counts above or in Hosts.
	Inbound uint64 `json:"inbound,omitempty"`
	// Codes counts verdicts by their reason.
	Codes map[string]uint64 `json:"codes"`
	// Hosts counts verdicts by destination, the busiest first. Those beyond
	// the first hundred destinations are together in OtherHosts.
	Hosts      []HostSummary `json:"hosts"`
	OtherHosts uint64        `json:"other_hosts,omitempty"`

	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`

	// Lost records: those the sidecar could not deliver, and those the files
	// had no room for. The latter are among the counts above, except those
	// from before the driver was last restarted.
	LostBySidecar uint64 `json:"lost_by_sidecar,omitempty"`
	NotKept       uint64 `json:"not_kept,omitempty"`
}

// HostSummary counts the verdicts on one destination.
type HostSummary struct {
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Pending uint64 `json:"pending"`
	// Bytes of what has ended, as of the whole.
	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`
}

func (h HostSummary) total() uint64 { return h.Allowed + h.Denied + h.Pending }

type hostKey struct {
	host string
	port int
}

// counter counts records as they come.
type counter struct {
	sum   Summary
	hosts map[hostKey]*HostSummary
	gap   RecordGap // the latest of the files' own gaps
}

func newCounter(id uuid.UUID) *counter {
	return &counter{
		sum:   Summary{V: recordVersion, RunID: id, Codes: map[string]uint64{}},
		hosts: map[hostKey]*HostSummary{},
	}
}

// add counts a record, whether it comes from the sidecar or out of a file.
func (c *counter) add(r Record) {
	if c.sum.First.IsZero() {
		c.sum.First = r.Time
	}
	c.sum.Last = r.Time
	switch r.Kind {
	case kindDecision:
		c.verdict(r)
	case kindEnd:
		c.sum.BytesUp += r.BytesUp
		c.sum.BytesDown += r.BytesDown
		if h := c.hosts[hostKey{r.Host, r.Port}]; h != nil && r.Direction != egress.Inbound {
			h.BytesUp += r.BytesUp
			h.BytesDown += r.BytesDown
		}
	case KindGap:
		c.lost(r)
	}
}

func (c *counter) verdict(r Record) {
	if _, known := c.sum.Codes[r.Code]; known || len(c.sum.Codes) < maxCodes {
		c.sum.Codes[r.Code]++
	}
	if r.Direction == egress.Inbound {
		c.sum.Inbound++
		return
	}
	count(&c.sum.Allowed, &c.sum.Denied, &c.sum.Pending, r.Decision)
	key := hostKey{r.Host, r.Port}
	h := c.hosts[key]
	if h == nil {
		if len(c.hosts) >= maxHosts {
			c.sum.OtherHosts++
			return
		}
		h = &HostSummary{Host: r.Host, Port: r.Port}
		c.hosts[key] = h
	}
	count(&h.Allowed, &h.Denied, &h.Pending, r.Decision)
}

func count(allowed, denied, pending *uint64, d egress.Decision) {
	switch d {
	case egress.Allow:
		*allowed++
	case egress.Deny:
		*denied++
	case egress.Pending:
		*pending++
	}
}

// lost counts a gap: a sidecar's report, or one of the files' own, which grow
// under one From.
func (c *counter) lost(r Record) {
	switch {
	case r.Gap == nil:
	case r.Gap.From == 0:
		c.sum.LostBySidecar += r.Gap.N
	case r.Gap.From == c.gap.From:
		c.sum.NotKept += r.Gap.N - min(r.Gap.N, c.gap.N)
		c.gap = *r.Gap
	default:
		c.sum.NotKept += r.Gap.N
		c.gap = *r.Gap
	}
}

// summary is a copy of the counts so far.
func (c *counter) summary() Summary {
	s := c.sum
	s.Codes = maps.Clone(s.Codes)
	s.Hosts = make([]HostSummary, 0, len(c.hosts))
	for _, h := range c.hosts {
		s.Hosts = append(s.Hosts, *h)
	}
	slices.SortFunc(s.Hosts, func(a, b HostSummary) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return s
}
