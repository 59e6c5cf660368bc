package docker

import (
	"slices"
	"testing"
)

// R29, K38: what engines before 28 leave readable of the rest of the node is
// masked, with all that they mask themselves; later ones mask more by themselves.
func TestR29MaskedPaths(t *testing.T) {
	for major, own := range map[int]bool{20: true, 24: true, 27: true, 28: false, 29: false} {
		got := hardened("runc", hostFacts{Major: major}).MaskedPaths
		if own != (got != nil) || own && !slices.Contains(got, "/sys/devices/virtual/powercap") {
			t.Errorf("engine %d: %q", major, got)
		}
		// The default of 20.10; an own list takes its place.
		for _, p := range []string{"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"} {
			if own && !slices.Contains(got, p) {
				t.Errorf("engine %d leaves %s open", major, p)
			}
		}
		if got := hardened("runsc", hostFacts{Major: major}).MaskedPaths; got != nil {
			t.Errorf("gVisor under engine %d: %q", major, got)
		}
	}
}
