package docker

import "testing"

// S53: where the engine draws hardware addresses by lot, the sidecar's follows
// from its address, so that one in its place has the same.
func TestSidecarKeepsItsHardwareAddress(t *testing.T) {
	for major, want := range map[int]string{20: "", 27: "", 28: "02:42:0a:d5:00:0a", 29: "02:42:0a:d5:00:0a"} {
		e := sidecarEndpoint(goldenNet, hostFacts{Major: major}).EndpointsConfig[goldenNet.ID]
		if e.MacAddress != want || e.IPAMConfig.IPv4Address != goldenNet.Plan.Sidecar.String() {
			t.Errorf("engine %d: %q at %s, want %q", major, e.MacAddress, e.IPAMConfig.IPv4Address, want)
		}
	}
}
