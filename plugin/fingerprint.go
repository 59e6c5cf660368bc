package plugin

import (
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Fingerprint tells the client of the node's health, at once and whenever it
// changes, until the client leaves. A stream that ended would be opened again
// at once, for ever.
func (p *Plugin) Fingerprint(_ *driverpb.FingerprintRequest, stream driverpb.Driver_FingerprintServer) error {
	p.clientCame()
	defer p.clientLeft()
	p.health.start(p.life)
	p.reaper.start(p.life)
	if last, next := p.health.current(); last == nil {
		grace := time.NewTimer(firstWait)
		defer grace.Stop()
		select {
		case <-next:
		case <-grace.C:
		case <-stream.Context().Done():
			return nil
		}
	}
	return p.sendFindings(stream)
}

// sendFindings sends the last finding, and again when it changes or every half
// a minute.
func (p *Plugin) sendFindings(stream driverpb.Driver_FingerprintServer) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	t := telling{since: time.Now(), held: map[string]bool{}}
	for {
		last, next := p.health.current()
		for _, m := range t.messages(p.withLeftovers(fingerprint(p.opts.Version, last)), time.Now()) {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		for same := true; same; {
			select {
			case <-next:
				var f *finding
				f, next = p.health.current()
				same = f == last
			case <-tick.C:
				same = false
			case <-stream.Context().Done():
				return nil
			}
		}
	}
}

// fingerprint is a finding with every attribute, an empty one where it does not
// hold; telling says which of these a client is sent. Nothing in it changes from
// one examination to the next by itself.
func fingerprint(version string, f *finding) *driverpb.FingerprintResponse {
	if f == nil {
		return &driverpb.FingerprintResponse{
			Health:            driverpb.FingerprintResponse_UNDETECTED,
			HealthDescription: "examining the engine and its runtimes",
		}
	}
	attrs := map[string]string{
		"version": version, "engine": f.Capabilities.Driver, "engine.version": f.EngineVersion,
		"structural_egress": yes(f.Capabilities.StructuralEgress), "capacity": f.Capacity,
	}
	for _, c := range types.Classes() {
		attrs["class."+string(c)] = ""
	}
	var classes []string
	for _, c := range f.Classes {
		if c.Works {
			classes = append(classes, c.Class)
			attrs["class."+c.Class] = orUnknown(c.Runtime)
		}
	}
	attrs["classes"] = strings.Join(classes, ",")
	out := &driverpb.FingerprintResponse{
		Attributes: map[string]*structspb.Attribute{},
		Health:     driverpb.FingerprintResponse_HEALTHY, HealthDescription: "Healthy",
	}
	for k, v := range attrs {
		out.Attributes["driver."+Name+"."+k] = &structspb.Attribute{Value: &structspb.Attribute_StringVal{StringVal: v}}
	}
	out.Attributes["driver."+Name+".slots"] = &structspb.Attribute{Value: &structspb.Attribute_IntVal{IntVal: int64(f.Total)}}
	if !f.Healthy {
		out.Health, out.HealthDescription = driverpb.FingerprintResponse_UNHEALTHY, f.Reason
	}
	return out
}

// yes is "true" or nothing: an attribute that does not hold is not there.
func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
