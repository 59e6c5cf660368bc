package plugin

import (
	"strings"
	"testing"
)

// K21: two raw tunnels on one port are refused before anything is made; one,
// or two ports, are not.
func TestK21RawPorts(t *testing.T) {
	for _, c := range []struct {
		allow []string
		bad   bool
	}{
		{[]string{"a.test:5432+tcp"}, false},
		{[]string{"a.test:5432+tcp", "a.test:5432+tcp"}, false},
		{[]string{"a.test:5432+tcp", "b.test:5433+tcp"}, false},
		{[]string{"a.test:5432+tcp", "b.test:5432"}, false},
		{[]string{"a.test:5432+tcp", "b.test:5432+tcp"}, true},
	} {
		f := &faults{what: "test"}
		new(ask).readEgress(EgressConfig{Allow: c.allow}, HostConfig{}, f)
		err := f.err()
		if (err != nil) != c.bad || c.bad && !strings.Contains(err.Error(), "port 5432 already belongs to a.test") {
			t.Errorf("%q: %v", c.allow, err)
		}
	}
}
