package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// bulk prints 64 MiB.
var bulk = []string{"dd", "if=/dev/zero", "bs=1M", "count=64"}

// peer is the plain engine, by its own command line.
type peer struct {
	b       *testing.B
	runtime string
	image   string
	n       int      // containers made
	names   []string // of those that prepare made, each on a network of the same name
}

// run starts a container on the engine's usual network.
func (p *peer) run() time.Duration { return timed(func() { p.container() }) }

// prepare makes containers on networks of their own, as a driver's are, for
// remove to take away.
func (p *peer) prepare(n int) {
	for range n {
		name := p.name(p.n + 1)
		p.docker("network", "create", "--internal", "--subnet", fmt.Sprintf("10.212.%d.0/29", p.n), name)
		p.b.Cleanup(func() { exec.Command("docker", "network", "rm", name).Run() })
		p.names = append(p.names, p.container("--network", name))
	}
}

func (p *peer) container(flags ...string) string {
	p.n++
	name := p.name(p.n)
	p.b.Cleanup(func() { exec.Command("docker", "rm", "-f", name).Run() })
	p.docker(append(append([]string{"run", "-d", "--runtime", p.runtime, "--name", name}, flags...), p.image, "sleep", "3600")...)
	return name
}

func (p *peer) name(n int) string {
	return fmt.Sprintf("wardyn-bench-%d-%s-%d", os.Getpid(), p.runtime, n)
}

func (p *peer) exec() time.Duration {
	return timed(func() { p.docker("exec", p.name(p.n), "true") })
}

func (p *peer) stream() time.Duration {
	return timed(func() { p.docker(append([]string{"exec", p.name(p.n)}, bulk...)...) })
}

func (p *peer) remove() time.Duration {
	name := p.names[0]
	p.names = p.names[1:]
	return timed(func() {
		p.docker("rm", "-f", name)
		p.docker("network", "rm", name)
	})
}

func (p *peer) docker(args ...string) {
	p.b.Helper()
	ctx, cancel := context.WithTimeout(p.b.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout = io.Discard
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		p.b.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
}
