package docker

// maskedPaths are files of the kernel's that nothing in a container reads, where
// an engine's own list leaves some of them open: before 24.0.7 how much power
// the node draws, from which secrets of its other programs can be told
// (CVE-2020-8694), and before 28 when it is interrupted. nil is the engine's
// own list. gVisor shows none of them.
func maskedPaths(runtime string, host hostFacts) []string {
	if host.Major >= 28 || !inFamily(runtime, sidecarRuntime) {
		return nil
	}
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
}
