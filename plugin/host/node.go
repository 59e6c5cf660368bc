package host

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// Health is a driver's word on itself.
type Health int

// The health states of the protocol. Tasks are placed on a healthy driver only.
const (
	Undetected Health = iota
	Unhealthy
	Healthy
)

// String is the word a node's status shows.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	default:
		return "undetected"
	}
}

// Fingerprint is one message of a driver about itself.
type Fingerprint struct {
	Health      Health
	Description string
	Attributes  map[string]string
}

// LocalNode is this machine as a client node with a fresh id.
func LocalNode() Node {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return Node{
		Node: taskenv.Node{
			ID: uuid.NewString(), Name: name, Datacenter: "dc1", Region: "global", Pool: "default",
			Attributes: map[string]string{
				"kernel.name": runtime.GOOS, "cpu.arch": runtime.GOARCH, "unique.hostname": name,
			},
		},
		Cores: localCores(),
	}
}

func fromFingerprint(r *driverpb.FingerprintResponse) Fingerprint {
	if r.GetErr() != "" {
		return failedFingerprint()
	}
	out := Fingerprint{
		Health: Health(r.GetHealth()), Description: r.GetHealthDescription(),
		Attributes: make(map[string]string, len(r.GetAttributes())),
	}
	for k, v := range r.GetAttributes() {
		out.Attributes[k] = attributeText(v)
	}
	return out
}

func failedFingerprint() Fingerprint {
	return Fingerprint{Health: Undetected, Description: "failed to fingerprint driver"}
}

func attributeText(a *structspb.Attribute) string {
	switch v := a.GetValue().(type) {
	case *structspb.Attribute_FloatVal:
		return fmt.Sprintf("%v", v.FloatVal) + a.GetUnit()
	case *structspb.Attribute_IntVal:
		return fmt.Sprintf("%v", v.IntVal) + a.GetUnit()
	case *structspb.Attribute_BoolVal:
		return fmt.Sprintf("%v", v.BoolVal) + a.GetUnit()
	default:
		return a.GetStringVal() + a.GetUnit()
	}
}

// nodeState is what fingerprints leave in a node's record.
type nodeState struct {
	driver string

	mu         sync.Mutex
	last       *Fingerprint // nil until the first came
	attributes map[string]string
	updates    int
	first      chan struct{} // closed with the first fingerprint
}

func newNodeState(attributes map[string]string) *nodeState {
	s := &nodeState{attributes: maps.Clone(attributes), first: make(chan struct{})}
	if s.attributes == nil {
		s.attributes = map[string]string{}
	}
	return s
}

// apply merges a fingerprint as a client does. The first one counts as it stands, empty attributes
// too. Later an attribute changes where its value is another than in the fingerprint before, and an
// empty value removes it; the driver's own attribute follows its detection. Each change is an update
// that a real client sends to its servers.
func (s *nodeState) apply(f Fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.last == nil
	if changed {
		maps.Copy(s.attributes, f.Attributes)
		close(s.first)
	} else {
		changed = s.last.Health != f.Health || s.last.Description != f.Description
		for k, v := range f.Attributes {
			if s.last.Attributes[k] == v {
				continue
			}
			changed = true
			if v == "" {
				delete(s.attributes, k)
			} else {
				s.attributes[k] = v
			}
		}
	}
	own := "driver." + s.driver
	if f.Health == Undetected {
		delete(s.attributes, own)
	} else {
		s.attributes[own] = "1"
	}
	if changed {
		s.updates++
		s.last = &f
	}
}

// lost is what a client records when the plugin process is gone.
func (s *nodeState) lost() {
	s.apply(Fingerprint{Health: Unhealthy, Description: "plugin process is not running"})
}

// Fingerprint waits for the driver's first fingerprint and returns the latest.
func (p *Plugin) Fingerprint(ctx context.Context) (Fingerprint, error) {
	select {
	case <-p.node.first:
	case <-ctx.Done():
		return Fingerprint{}, fmt.Errorf("wait for the first fingerprint: %w", ctx.Err())
	case <-p.life.Done():
		return Fingerprint{}, ErrClosed
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return *p.node.last, nil
}

// NodeAttributes are the node's attributes with what the driver contributed.
func (p *Plugin) NodeAttributes() map[string]string {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return maps.Clone(p.node.attributes)
}

// NodeUpdates counts the fingerprints that changed anything. A driver whose count keeps growing
// burdens the servers.
func (p *Plugin) NodeUpdates() int {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return p.node.updates
}
