package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

func (x *examination) network() {
	if !x.facts.Host.BridgeFilter && x.facts.EngineErr == "" {
		x.add(Warning, "bridge-filter", "network", "the firewall does not see traffic within a bridge (net.bridge.bridge-nf-call-iptables is not 1), so it does not keep sidecars apart; only their own checks of addresses do",
			"modprobe br_netfilter and set sysctl net.bridge.bridge-nf-call-iptables to 1, now and in /etc/sysctl.d")
	}
	for _, p := range x.facts.Pools {
		x.pool(p)
	}
}

// pool says how full a range is, and who else holds part of it.
func (x *examination) pool(p Pool) {
	subject := "pool " + p.Option
	remedy := fmt.Sprintf("set the plugin option %s to a range that nothing else here uses", p.Option)
	for _, r := range p.Elsewhere {
		if covers(r.Prefix, p.Range) {
			x.add(Error, "pool-taken", subject, fmt.Sprintf("all of %s is held by %s, %s", p.Range, r.Holder, r.Prefix), remedy)
			return
		}
	}
	text := fmt.Sprintf("%s, %d of %d networks leased", p.Range, p.Used, p.Total)
	if p.UsedUnknown {
		text = fmt.Sprintf("%s, %d networks", p.Range, p.Total)
	}
	strangers, alike := p.others()
	if alike > 0 {
		text += fmt.Sprintf("; %d more are held by other installations of this driver and passed over", alike)
	}
	if len(strangers) > 0 {
		x.add(Warning, "pool-shared", subject, text+"; parts are passed over, since others hold them: "+strings.Join(strangers, ", "), remedy)
		return
	}
	if !p.Single && !p.UsedUnknown && p.Used >= p.Total {
		x.add(Error, "pool-full", subject, text+": no task can start", "end tasks, or enlarge the plugin option "+p.Option)
		return
	}
	x.add(Info, "pool", subject, text, "")
}

// others are the first few that hold parts of a pool and are no installation
// of this driver, and how many networks of such there are.
func (p Pool) others() (strangers []string, alike int) {
	const most = 5
	for _, r := range p.Elsewhere {
		switch {
		case r.Alike:
			alike++
		case len(strangers) < most:
			strangers = append(strangers, fmt.Sprintf("%s (%s)", r.Prefix, r.Holder))
		case len(strangers) == most:
			strangers = append(strangers, "...")
		}
	}
	return strangers, alike
}

func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
