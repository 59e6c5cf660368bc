package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// word is what a command says first, and says where a start ends: a task with a
// setup counts as started while that still runs.
const word = "up\n"

var saysWord = []string{"/bin/sh", "-c", "echo up; exec sleep 3600"}

// setupTakes is how long the setup's script sleeps. WARDYN_BENCH_SETUP takes
// another duration.
func setupTakes(b *testing.B) time.Duration {
	d := 2 * time.Minute
	if s := os.Getenv("WARDYN_BENCH_SETUP"); s != "" {
		var err error
		d, err = time.ParseDuration(s)
		must(b, err)
	}
	return d
}

// BenchmarkSetup starts a task with a long setup, and then, in turn, one with the
// same setup, one without and a plain container: each from the call to the first
// word of its command. It prints the medians, and what a start from the kept setup
// takes beside the two others. Under gVisor it needs --overlay2=none.
func BenchmarkSetup(b *testing.B) {
	testenv.Engine(b)
	image, takes := testenv.Image(b), setupTakes(b)
	fmt.Printf("\n%-6s %10s %10s %10s %10s %12s %12s %12s\n", "", "first", "again", "plain", "docker", "again/plain", "again/docker", "plain/docker")
	for _, rt := range testenv.Runtimes(b) {
		b.Run(rt, func(b *testing.B) {
			r := newRig(b, rt, image, 0)
			setup := map[string]any{"script": fmt.Sprintf("sleep %d; echo tool > /made", int(takes.Seconds())), "timeout": (takes + 10*time.Minute).String()}
			first, err := r.toWord(setup)
			if err != nil && rt != "runc" {
				fmt.Printf("%-6s no setup can be kept: %v\n", rt, err)
				return
			}
			must(b, err)
			start := func(setup map[string]any) func() time.Duration {
				return func() time.Duration {
					took, err := r.toWord(setup)
					must(b, err)
					return took
				}
			}
			p := &peer{b: b, runtime: rt, image: image}
			took := medians(start(setup), start(nil), p.toWord)
			fmt.Printf("%-6s %10s", rt, first.Round(time.Millisecond))
			for _, t := range took {
				fmt.Printf(" %10s", t.Round(time.Millisecond))
			}
			ratio := func(i, j int) float64 { return float64(took[i]) / float64(took[j]) }
			fmt.Printf(" %11.2fx %11.2fx %11.2fx\n", ratio(0, 1), ratio(0, 2), ratio(1, 2))
			b.ReportMetric(0, "ns/op") // the table is the result
		})
	}
}

// toWord starts a task, waits for its word and ends it; setup may be nil.
func (r *rig) toWord(setup map[string]any) (took time.Duration, err error) {
	r.n++
	out, in := io.Pipe()
	defer out.Close()
	config := map[string]any{"image": r.image, "command": saysWord[0], "args": []any{saysWord[1], saysWord[2]}, "confinement": r.class()}
	if setup != nil {
		config["setup"] = []any{setup}
	}
	t, err := r.alloc.NewTask(host.TaskSpec{
		Name: fmt.Sprintf("w%d", r.n), Config: config, Stdout: in, StatsInterval: -1, KillTimeout: time.Second,
		Resources: host.Resources{CPU: 100, MemoryMB: 64},
	})
	if err != nil {
		return 0, err
	}
	heard := make(chan error, 1)
	go func() { heard <- hear(out) }()
	took = timed(func() {
		if err = t.Start(r.b.Context()); err == nil {
			err = r.ended(t, heard)
		}
	})
	go io.Copy(io.Discard, out)
	must(r.b, t.Stop(r.b.Context()))
	return took, err
}

// ended waits for a task's word, or for its end without one.
func (r *rig) ended(t *host.Task, heard <-chan error) error {
	ctx, cancel := context.WithCancel(r.b.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		exit, err := t.Wait(ctx)
		over <- fmt.Errorf("it ended before its command said a word: %+v, %v", exit, err)
	}()
	select {
	case err := <-heard:
		return err
	case err := <-over:
		return err
	}
}

// hear reads up to the word.
func hear(from io.Reader) error {
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadString('\n')
		if err != nil || line == word {
			return err
		}
	}
}

// toWord runs a container until its word, and removes it.
func (p *peer) toWord() time.Duration {
	p.n++
	name := p.name(p.n)
	args := []string{"run", "--runtime", p.runtime, "--name", name, p.image}
	cmd := exec.CommandContext(p.b.Context(), "docker", append(args, saysWord...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(p.b, err)
	took := timed(func() {
		must(p.b, cmd.Start())
		if err := hear(out); err != nil {
			p.b.Fatalf("docker %v: %v: %s", args, err, stderr.String())
		}
	})
	p.docker("rm", "-f", name)
	cmd.Wait()
	return took
}
