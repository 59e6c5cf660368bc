package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// gvisorRelease is the kernel that gVisor claims to be.
const gvisorRelease = "4.4.0"

// classReport is what "wardyn-rec probe" prints.
type classReport struct {
	Release   string `json:"release"`
	Version   string `json:"version"`
	BootID    string `json:"boot_id"`
	Processes int    `json:"processes"`
	Right     int    `json:"right"`
	Fault     string `json:"fault"`
}

// judgeClass says whether a probe under a runtime shows the class; nil is yes.
func judgeClass(s subject, host hostFacts, out probeOutput, err error) error {
	if err != nil {
		return remedy(s.runtime, err)
	}
	var rep classReport
	if jerr := json.Unmarshal([]byte(out.stdout), &rep); jerr != nil {
		return remedy(s.runtime, fmt.Errorf("its probe ended with exit code %d and printed no report (%s)", out.code, oneLine(out.stdout+out.stderr)))
	}
	if out.code != 0 || rep.Right != rep.Processes || rep.Processes == 0 {
		return fmt.Errorf("only %d of %d programs ran right under it (%s)", rep.Right, rep.Processes, oneLine(rep.Fault))
	}
	// A name can be changed for one process; what its kernel drew at boot cannot.
	same := rep.Release == host.Kernel || rep.BootID != "" && rep.BootID == host.BootID
	switch s.class {
	case types.CC2:
		if same {
			return fmt.Errorf("runtime %s shows the host's own kernel %s: it is not gVisor", s.runtime, rep.Release)
		}
	case types.CC3:
		if same || rep.Release == gvisorRelease {
			return fmt.Errorf("runtime %s shows kernel %s: it is not a virtual machine", s.runtime, rep.Release)
		}
	}
	return nil
}

// remedy adds what to do about failures that are known.
func remedy(rt string, err error) error {
	s := err.Error()
	switch {
	case strings.Contains(s, "cannot run with network enabled in root network namespace"):
		return fmt.Errorf("%w; this build of gVisor is too old for the kernel: install a newer runsc, or add \"--network=host\" to its runtimeArgs in the engine's daemon.json (its sandboxes then use the host kernel's network stack)", err)
	case inFamily(rt, familyGVisor) && strings.Contains(s, "exit code 2 and printed no report ()"):
		return fmt.Errorf("%w; the runtime crashed: a runsc built with too new a Go release does that, build it with the one its source names", err)
	case errors.Is(err, errProbeLate):
		return fmt.Errorf("%w; the runtime hangs on this host", err)
	}
	return err
}

// errProbeLate: a probe did not end in time.
var errProbeLate = fmt.Errorf("the probe did not end within %v", probeTimeout)

// errSilent: nothing came back from the bridge's own address, not even the
// kernel's word that nobody holds it.
var errSilent = errors.New("is not shown to be unheld")

// twiceIfSilent probes again where nothing was heard: on a busy host the
// kernel's word may come after the probe's deadline.
func twiceIfSilent(probe func() error) error {
	err := probe()
	if errors.Is(err, errSilent) {
		err = probe()
	}
	return err
}

// netResult is one line of "wardyn-rec netprobe".
type netResult struct {
	Target  string `json:"target"`
	Reached bool   `json:"reached"`
	Detail  string `json:"detail"`
}

// judgeEgress says whether a sandbox is shut in; nil is yes. Every target must
// have been tried, and none reached.
func judgeEgress(targets []string, out probeOutput, err error) error {
	if err != nil {
		return fmt.Errorf("egress probe: %w", err)
	}
	results, err := parseResults(out.stdout)
	if err != nil || out.code != 0 || len(results) != len(targets) {
		return fmt.Errorf("egress probe: exit code %d, %d of %d targets tried (%s)", out.code, len(results), len(targets), oneLine(out.stderr))
	}
	var reached []string
	for i, res := range results {
		if res.Target != targets[i] {
			return fmt.Errorf("egress probe: tried %q, want %q", res.Target, targets[i])
		}
		if i == 0 && !res.Reached && !nobodyThere(res) {
			// Silence may be a firewall's; only the kernel's word that nobody
			// holds the bridge's address shows that there is no way out.
			return fmt.Errorf("egress probe: %s %w (%s)", res.Target, errSilent, oneLine(res.Detail))
		}
		if res.Target == probeSocket && res.Reached {
			return errHostSockets
		}
		if leaks(res) {
			reached = append(reached, res.Target+" ("+oneLine(res.Detail)+")")
		}
	}
	if len(reached) > 0 {
		return fmt.Errorf("a sandbox on a network of its own reaches %s; no sandbox is created while that is so", strings.Join(reached, ", "))
	}
	return nil
}

// nobodyThere: the sandbox's kernel found no holder of the address.
func nobodyThere(r netResult) bool {
	return strings.Contains(r.Detail, "no route to host") || strings.Contains(r.Detail, "unreachable")
}

// leaks: the engine's own resolver at 127.0.0.11 may answer, as long as it says
// that it could ask nobody. An answer about the name came from somewhere else.
func leaks(r netResult) bool {
	if strings.HasPrefix(r.Target, "dns:127.0.0.11:") {
		return strings.HasPrefix(r.Detail, "answered rcode 0,") || strings.HasPrefix(r.Detail, "answered rcode 3,")
	}
	return r.Reached
}

func parseResults(s string) ([]netResult, error) {
	d := json.NewDecoder(strings.NewReader(s))
	var out []netResult
	for {
		var r netResult
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return out, err
		}
		out = append(out, r)
	}
}

// bridgeLinkLocal is the IPv6 address that the host's end of a bridge has, or
// would have, by the kernel's rule. It is invalid when the bridge cannot be seen.
func bridgeLinkLocal(bridge string) netip.Addr {
	ifi, err := net.InterfaceByName(bridge)
	if err != nil {
		return netip.Addr{}
	}
	return linkLocalOf(ifi.HardwareAddr)
}

// linkLocalOf derives an address from a MAC as EUI-64 says.
func linkLocalOf(mac net.HardwareAddr) netip.Addr {
	if len(mac) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff,
		12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}

// oneLine makes what a probe printed fit for a sentence.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + " ..."
	}
	return s
}
