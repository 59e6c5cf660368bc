package docker

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// late is a socket of a process that a busy host runs again only when the
// deadline it has just set is over.
type late struct{ *net.UDPConn }

func (l late) SetReadDeadline(at time.Time) error {
	err := l.UDPConn.SetReadDeadline(at)
	time.Sleep(time.Until(at))
	return err
}

// What was heard counts, behind how much else it may be and however late it is
// asked for.
func TestEarsHear(t *testing.T) {
	w := newFakeWorld(t)
	for name, c := range map[string]struct {
		sent  []string
		heard bool
	}{
		"nothing":         {nil, false},
		"others' traffic": {[]string{"hello", ""}, false},
		"a probe":         {[]string{"wardyn-rec\n"}, true},
		"a probe, last":   {[]string{"hello", "", "wardyn-rec\n"}, true},
	} {
		e, err := w.listen(subject{types.CC1, "runc"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.close()
		sender, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: e.strays.LocalAddr().(*net.UDPAddr).Port})
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		for _, text := range c.sent {
			if _, err := sender.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		e.strays = late{e.strays.(*net.UDPConn)}
		err = e.judge()
		if (err != nil) != c.heard || c.heard && !strings.Contains(err.Error(), sender.LocalAddr().String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
