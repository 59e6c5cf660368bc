package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

func TestAwaitHealthy(t *testing.T) {
	type word struct {
		after time.Duration
		host.Fingerprint
	}
	sick := func(after time.Duration, why string) word {
		return word{after, host.Fingerprint{Health: host.Unhealthy, Description: why}}
	}
	well := func(after time.Duration) word { return word{after, host.Fingerprint{Health: host.Healthy}} }
	for name, c := range map[string]struct {
		words  []word
		took   time.Duration
		err    string
		stderr string
	}{
		"healthy at once":   {[]word{well(0)}, 0, "", ""},
		"healthy late":      {[]word{well(totalPatience - 1)}, totalPatience - 1, "", ""},
		"never a word":      {nil, totalPatience, "given up: the driver is undetected: it has not said anything", ""},
		"gets well in time": {[]word{sick(time.Second, "a"), sick(time.Second, "a"), well(sickPatience - 1 - time.Second)}, time.Second + sickPatience - 1, "", " * The driver is unhealthy: a\n * The driver is healthy\n"},
		"stays as it is":    {[]word{sick(0, "a"), sick(time.Second, "a")}, sickPatience, "given up: the driver stays unhealthy, for the reason above", " * The driver is unhealthy: a\n"},
		"a change is hope":  {[]word{sick(0, "a"), sick(sickPatience-1, "b"), well(sickPatience - 1)}, 2*sickPatience - 2, "", " * The driver is unhealthy: a\n * The driver is unhealthy: b\n * The driver is healthy\n"},
		"but not for ever": {[]word{sick(0, "a"), sick(sickPatience-1, "b"), sick(sickPatience-1, "c"), sick(sickPatience-1, "d"), sick(sickPatience-1, "e")}, totalPatience,
			"given up: the driver stays unhealthy, for the reason above", " * The driver is unhealthy: a\n * The driver is unhealthy: b\n * The driver is unhealthy: c\n * The driver is unhealthy: d\n * The driver is unhealthy: e\n"},
		"line by line": {[]word{sick(0, "a\nb")}, sickPatience, "given up: the driver stays unhealthy, for the reason above", " * The driver is unhealthy: a\n * b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				prints := make(chan host.Fingerprint, 1)
				go func() {
					for _, w := range c.words {
						time.Sleep(w.after)
						latest(prints, w.Fingerprint)
					}
				}()
				began := time.Now()
				err := awaitHealthy(t.Context(), prints, newPrinter(nil, &stderr, nil))
				if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err || time.Since(began) != c.took || stderr.String() != c.stderr {
					t.Errorf("after %s: %v, stderr %q", time.Since(began), err, stderr.String())
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitHealthy(ctx, nil, newPrinter(nil, nil, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestLatestKeepsTheNewest(t *testing.T) {
	c := make(chan int, 1)
	for i := range 5 {
		latest(c, i)
	}
	if got := <-c; got != 4 || len(c) != 0 {
		t.Errorf("got %d, %d more", got, len(c))
	}
}

// TestPlainErrors: what a plugin says reaches the user without gRPC's frame,
// also from inside other errors.
func TestPlainErrors(t *testing.T) {
	framed := errors.New("rpc error: code = FailedPrecondition desc = image is missing: code = x desc = y")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("no frame"), "no frame"},
		{framed, "image is missing: code = x desc = y"},
		{errors.Join(framed), "image is missing: code = x desc = y"},
		{&plainError{framed}, "image is missing: code = x desc = y"},
		{fmt.Errorf("SetConfig: %w", framed), "SetConfig: image is missing: code = x desc = y"},
		{errors.New("rpc error: something"), "rpc error: something"},
	} {
		if got := plain(c.err); got != c.want {
			t.Errorf("plain(%q) = %q, want %q", c.err, got, c.want)
		}
	}
	if !errors.Is(fmt.Errorf("start: %w", &plainError{context.Canceled}), context.Canceled) {
		t.Error("the cause is lost")
	}
}

// TestLaunchTellsWhy: a program that is no plugin, or none at all.
func TestLaunchTellsWhy(t *testing.T) {
	for _, path := range []string{"/bin/false", "/nonexistent"} {
		_, err := launchPlugin(t.Context(), launchSpec{
			executable: path, placement: &placement{node: host.LocalNode()}, out: newPrinter(nil, nil, nil),
		})
		if err == nil || !strings.Contains(err.Error(), "start the plugin: ") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
