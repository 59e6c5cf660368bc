package main

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func TestCleanMapping(t *testing.T) {
	const exe = "/wardyn-proxy"
	for line, want := range map[string]bool{
		"00400000-00401000 r-xp 00000000 00:19 42                                 /wardyn-proxy":     true,
		"00401000-00403000 r--p 00001000 00:19 42                                 /wardyn-proxy":     true,
		"00403000-00404000 rw-p 00003000 00:19 42                                 /wardyn-proxy":     false,
		"00400000-00401000 r-xp 00000000 00:19 42                                 /lib/other.so":     false,
		"7ffc0000-7ffd0000 r-xp 00000000 00:00 0                                  [vdso]":            false,
		"00400000-00401000 r-xp 00000000 00:19 42                                 /wardyn-proxy (x)": false,
		"c000000000-c000400000 rw-p 00000000 00:00 0":                                                false,
		"": false,
	} {
		start, length, ok := cleanMapping(line, exe)
		if ok != want {
			t.Errorf("%q: %t, want %t", line, ok, want)
		}
		if ok && (start == 0 || length == 0) {
			t.Errorf("%q: %x + %x", line, start, length)
		}
	}
}

// TestSettleKeepsRunning: what was given back comes again when it is needed.
func TestSettleKeepsRunning(t *testing.T) {
	settle(discard())
	if b, err := os.ReadFile("/proc/self/maps"); err != nil || len(b) == 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestFrugalAsTheOperatorHasIt: GOGC in the environment wins.
func TestFrugalAsTheOperatorHasIt(t *testing.T) {
	t.Setenv("GOGC", "")
	os.Unsetenv("GOGC")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func(c egress.Config) int {
		frugal(c)
		return debug.SetGCPercent(100)
	}
	ends := egress.Config{MITMCACertPEM: "a certificate"}
	if got := percent(egress.Config{}); got != plainGC {
		t.Errorf("without interception: %d", got)
	}
	if got := percent(ends); got != interceptingGC {
		t.Errorf("with interception: %d", got)
	}
	t.Setenv("GOGC", "200")
	if got := percent(ends); got != 100 {
		t.Errorf("against the operator's word: %d", got)
	}
}
