package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// rounds is how often each measure is taken, all that are compared in turn.
const rounds = 9

// BenchmarkRatios prints a table: the medians of the driver, of the driver with
// a pool of warm slots and of the plain engine, and the ratios to the last, a
// row for each measure and runtime.
func BenchmarkRatios(b *testing.B) {
	testenv.Engine(b)
	image := testenv.Image(b)
	fmt.Printf("\n%-26s %-6s %9s %9s %9s %8s %8s\n", "measure", "", "driver", "pooled", "docker", "driver", "pooled")
	for _, rt := range testenv.Runtimes(b) {
		b.Run(rt, func(b *testing.B) {
			own, pooled := newRig(b, rt, image, 0), newRig(b, rt, image, 1)
			peer := &peer{b: b, runtime: rt, image: image}
			row(rt, "start to running", own.start, pooled.start, peer.run)
			row(rt, "exec round trip", own.exec, pooled.exec, peer.exec)
			row(rt, "64 MiB out of an exec", own.stream, pooled.stream, peer.stream)
			peer.prepare(rounds)
			row(rt, "stop, remove, network too", own.stop, pooled.stop, peer.remove)
			b.ReportMetric(0, "ns/op") // the table is the result
		})
	}
}

// row measures in turn and prints the medians and the ratios to the last one.
// A measure times itself: what it has to prepare does not count.
func row(runtime, name string, measures ...func() time.Duration) {
	took := medians(measures...)
	fmt.Printf("%-26s %-6s", name, runtime)
	for _, t := range took {
		fmt.Printf(" %9s", t.Round(time.Millisecond))
	}
	last := took[len(took)-1]
	for _, t := range took[:len(took)-1] {
		fmt.Printf(" %7.2fx", float64(t)/float64(last))
	}
	fmt.Println()
}

// medians takes each measure a few times, in turn.
func medians(measures ...func() time.Duration) (out []time.Duration) {
	took := make([][]time.Duration, len(measures))
	for range rounds {
		for i, measure := range measures {
			took[i] = append(took[i], measure())
		}
	}
	for _, t := range took {
		slices.Sort(t)
		out = append(out, t[rounds/2])
	}
	return out
}

func timed(f func()) time.Duration {
	t := time.Now()
	f()
	return time.Since(t)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
