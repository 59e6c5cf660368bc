package plugin

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mostSeconds is the longest time that the kernel can count in its own ticks.
const mostSeconds = math.MaxInt32 / 1000

// sysctls are the keys a task may set, its own network's, for IPv4, and what the
// kernel takes for each. A runtime's complaint comes late and names no option.
var sysctls = map[string]sysctlValue{
	"net.ipv4.ip_local_port_range":        {2, 1, 65535},
	"net.ipv4.ip_unprivileged_port_start": {1, 0, 65535},
	"net.ipv4.tcp_fin_timeout":            {1, 0, mostSeconds},
	"net.ipv4.tcp_keepalive_intvl":        {1, 0, mostSeconds},
	"net.ipv4.tcp_keepalive_probes":       {1, 0, 255},
	"net.ipv4.tcp_keepalive_time":         {1, 0, mostSeconds},
	"net.ipv4.tcp_retries2":               {1, 0, 255},
	"net.ipv4.tcp_syn_retries":            {1, 1, 127},
}

func (a *ask) readSysctls(v any, f *faults) {
	set, err := stringMap(v)
	if err != nil {
		f.add("sysctl", nil, err.Error(), "")
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		want, known := sysctls[k]
		if !known {
			f.add("sysctl", k, "this key cannot be set", "the ones that can are "+strings.Join(slices.Sorted(maps.Keys(sysctls)), ", "))
		} else if !want.takes(set[k]) {
			f.add("sysctl."+k, set[k], "want "+want.String(), "")
		}
	}
	a.Sysctls = set
}

// sysctlValue is what the kernel takes for a key: so many numbers, each within
// bounds and none below the one before.
type sysctlValue struct{ count, least, most int }

func (w sysctlValue) String() string {
	if w.count == 2 {
		return fmt.Sprintf("two numbers from %d to %d, the lower one first", w.least, w.most)
	}
	return fmt.Sprintf("a number from %d to %d", w.least, w.most)
}

func (w sysctlValue) takes(text string) bool {
	parts := strings.Fields(text)
	if len(parts) != w.count || strings.ContainsAny(text, "\n\r") {
		return false
	}
	least := w.least
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < least || n > w.most {
			return false
		}
		least = n
	}
	return true
}
