package plugin

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// readPorts reads the labels of ports to be opened.
func (a *ask) readPorts(c TaskConfig, f *faults) {
	if !asks(c.Ports) {
		return
	}
	labels, err := stringList(c.Ports)
	if err != nil {
		f.add("ports", c.Ports, err.Error(), `write the labels of the group's ports, for instance ports = ["http"]`)
		return
	}
	for _, l := range labels {
		if slices.Contains(a.Ports, l) {
			f.add("ports", l, "it is listed twice", "remove one of the two")
			continue
		}
		a.Ports = append(a.Ports, l)
	}
}

// readPorts finds the ports that a task asked for among those Nomad gave its
// group. Each is opened for TCP and UDP, as Nomad reserves both.
func (g *given) readPorts(t *driverpb.TaskConfig, a ask, h HostConfig, f *faults) {
	if len(a.Ports) == 0 {
		return
	}
	iso := t.GetNetworkIsolationSpec()
	if iso.GetMode() == driverpb.NetworkIsolationSpec_NONE && iso.GetPath() != "" {
		f.add("ports", a.Ports, "the group has no network", `write mode = "host" or "bridge" in the group's network block`)
		return
	}
	given := t.GetResources().GetPorts()
	for _, label := range a.Ports {
		i := slices.IndexFunc(given, func(p *driverpb.PortMapping) bool { return p.GetLabel() == label })
		if i < 0 {
			f.add("ports", label, "the group's network has no port of that label", "the ones it has: "+portLabels(given))
			continue
		}
		g.addPort(given[i], namespaceOf(iso), h, f)
	}
}

// namespaceOf is the network namespace of the group; "" is the host's.
func namespaceOf(iso *driverpb.NetworkIsolationSpec) string {
	if iso.GetMode() == driverpb.NetworkIsolationSpec_HOST {
		return ""
	}
	return iso.GetPath()
}

// addPort places one port: at the host's address, or where the group has a
// namespace, into which Nomad leads the host's port, at the task's port there.
func (g *given) addPort(m *driverpb.PortMapping, namespace string, h HostConfig, f *faults) {
	label, value, to := m.GetLabel(), m.GetValue(), m.GetTo()
	if to <= 0 {
		to = value
	}
	if value < 1 || value > 65535 || to > 65535 {
		f.add("ports", label, fmt.Sprintf("Nomad gives it the port %d, to %d in the task", value, to), "")
		return
	}
	p := ports.Port{Label: label, Namespace: namespace, Port: uint16(value), To: uint16(to)}
	if namespace != "" {
		p.Port = p.To
	} else if addr, err := netip.ParseAddr(m.GetHostIp()); err != nil {
		f.add("ports", label, fmt.Sprintf("Nomad gives it no address to listen on (%q)", m.GetHostIp()), "write a port of the group's network block, not of the task's")
		return
	} else {
		p.Addr = addr
	}
	var networks []string
	for _, n := range []string{ports.TCP, ports.UDP} {
		if mayOpen(h.Ports, n, int(value)) {
			networks = append(networks, n)
		}
	}
	if len(networks) == 0 {
		f.add("ports", label, fmt.Sprintf("port %d of the host is not one that the operator lets tasks have (plugin option ports: %s)", value, rangeList(h.Ports)), "use one of these")
		return
	}
	for _, n := range networks {
		p.Network = n
		g.Ports = append(g.Ports, p)
	}
}

func portLabels(given []*driverpb.PortMapping) string {
	if len(given) == 0 {
		return "none"
	}
	out := make([]string, len(given))
	for i, p := range given {
		out[i] = p.GetLabel()
	}
	return strings.Join(out, ", ")
}

// portRange is one entry of the plugin option ports.
type portRange struct {
	first, last int
	network     string // "" is both
}

func (r portRange) String() string {
	if r.last == 0 {
		return "none"
	}
	s := strconv.Itoa(r.first)
	if r.last != r.first {
		s += "-" + strconv.Itoa(r.last)
	}
	if r.network != "" {
		s += "/" + r.network
	}
	return s
}

// portRanges reads the plugin option ports. nil is every port; the one entry
// "none" is an empty range, which no port is in.
func portRanges(f *faults, list []string) []portRange {
	var out []portRange
	for _, text := range list {
		r, err := parsePortRange(text)
		if err != nil || r.last == 0 && len(list) > 1 {
			f.add("ports", text, "want a port, a range of ports, or the one entry none", `for instance ["8080", "20000-32000", "53/udp"]`)
			continue
		}
		out = append(out, r)
	}
	return out
}

func parsePortRange(text string) (portRange, error) {
	if text == "none" {
		return portRange{}, nil
	}
	span, network, _ := strings.Cut(text, "/")
	low, high, isRange := strings.Cut(span, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	r := portRange{first: int(first), last: int(last), network: network}
	if err := cmp.Or(err1, err2); err != nil {
		return r, err
	}
	if r.first < 1 || r.first > r.last || strings.Contains(text, "/") && network != ports.TCP && network != ports.UDP {
		return r, fmt.Errorf("no range of ports")
	}
	return r, nil
}

// mayOpen reports whether tasks may have a port of the host.
func mayOpen(list []portRange, network string, port int) bool {
	return list == nil || slices.ContainsFunc(list, func(r portRange) bool {
		return r.first <= port && port <= r.last && (r.network == "" || r.network == network)
	})
}

func rangeList(list []portRange) string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = r.String()
	}
	return strings.Join(out, ", ")
}
