package plugin

import (
	"slices"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// client keeps a node's attributes as Nomad's does: the first message of a
// driver counts as it stands, later ones by what differs from the one before.
type client struct {
	last, node map[string]string
}

func (c *client) take(m map[string]string) {
	if c.node == nil {
		c.node, c.last = map[string]string{}, m
		for k, v := range m {
			c.node[k] = v
		}
		return
	}
	for k, v := range m {
		switch {
		case c.last[k] == v:
		case v == "":
			delete(c.node, k)
		default:
			c.node[k] = v
		}
	}
	c.last = m
}

// tell sends a finding with these classes to a client.
func (t *telling) tell(c *client, at time.Time, classes ...string) {
	f := &finding{Findings: runner.Findings{Healthy: true}}
	for _, class := range classes {
		f.Classes = append(f.Classes, runner.ClassFinding{Class: class, Runtime: "r", Works: true})
	}
	for _, m := range t.messages(fingerprint("1", f), at) {
		attrs := map[string]string{}
		for k, v := range m.Attributes {
			attrs[k] = v.GetStringVal()
		}
		c.take(attrs)
	}
}

// TestInvariant2NoAttributeOfAClassThatIsMissing: a constraint with is_set asks
// whether a node has the attribute, whatever its value.
func TestInvariant2NoAttributeOfAClassThatIsMissing(t *testing.T) {
	start := time.Now()
	late := start.Add(settleAfter)
	check := func(what string, c *client, want ...string) {
		t.Helper()
		var got []string
		for _, class := range []string{"CC1", "CC2", "CC3"} {
			if _, ok := c.node["driver.wardyn.class."+class]; ok {
				got = append(got, class)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the node has %v, want %v", what, got, want)
		}
	}
	stream := func() *telling { return &telling{since: start, held: map[string]bool{}} }

	c, s := &client{}, stream()
	s.tell(c, start, "CC1", "CC2")
	check("the first message", c, "CC1", "CC2")
	s.tell(c, start, "CC1")
	check("a class that is lost", c, "CC1")
	s.tell(c, late, "CC1", "CC3")
	check("settled", c, "CC1", "CC3")
	s.tell(c, late, "CC1", "CC2")
	check("afterwards", c, "CC1", "CC2")

	// A client that takes the latest only of what comes in its first minute.
	c, s = &client{}, stream()
	s.tell(&client{}, start, "CC1")
	s.tell(c, start, "CC1")
	s.tell(c, late, "CC1")
	check("gathered", c, "CC1")

	// The plugin died with the class: the client has the attribute and has
	// forgotten the message that it came with.
	c, s = &client{}, stream()
	s.tell(c, start, "CC1", "CC2")
	c.last = nil
	s = stream()
	s.tell(c, start, "CC1")
	s.tell(c, late, "CC1")
	check("a successor", c, "CC1")
}
