package runnertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// checkStructuralEgress: the claim is only as good as the probe that holds it.
func checkStructuralEgress(t *testing.T, b *bench) {
	if !b.capabilities(t).StructuralEgress {
		b.skip(t, "structural egress is not claimed")
	}
	if b.suite.EgressProbe == nil {
		t.Fatal("structural egress is claimed and nothing here could show it: the suite has no EgressProbe")
	}
	b.suite.EgressProbe(t, b.r, b.idle(t))
}

// relayPort is where the relay's client finds the listener, on the sandbox's
// own loopback.
const relayPort = "39099"

// checkRelay: what a client of one stream sends reaches a listener that another
// runs, in both directions, for as long as it keeps its input open, silent or not.
func checkRelay(t *testing.T, b *bench) {
	ref := b.idle(t)
	listener := b.open(t, ref, runner.ExecSpec{Argv: []string{"nc", "-l", "-p", relayPort, "-e", "cat"}})
	go io.Copy(io.Discard, listener.Stderr)
	go io.Copy(io.Discard, listener.Stdout)
	ended := make(chan string, 1)
	go func() {
		code, err := listener.Wait()
		ended <- fmt.Sprintf("%d, %v", code, err)
	}()
	client, out := b.connect(t, ref, ended)
	for i, silence := range []time.Duration{0, 300 * time.Millisecond} {
		time.Sleep(silence)
		want := fmt.Sprintf("message %d\n", i)
		if _, err := io.WriteString(client.Stdin, want); err != nil {
			t.Fatalf("send %q: %v", want, err)
		}
		if got, err := out.ReadString('\n'); got != want || err != nil {
			t.Fatalf("the listener answers %q, %v; want %q", got, err, want)
		}
	}
	client.Stdin.Close()
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Errorf("the end of the client's output: %v", err)
	}
	if got := <-ended; got != "0, <nil>" {
		t.Errorf("the listener ends with %s", got)
	}
}

// connect opens a client of the relay whose first line came back. The listener
// may take a moment to listen, and a client that found nobody is tried again.
func (b *bench) connect(t *testing.T, ref string, ended <-chan string) (*runner.ExecSession, *bufio.Reader) {
	t.Helper()
	const hello = "hello\n"
	for b.ctx.Err() == nil {
		s := b.open(t, ref, runner.ExecSpec{Argv: []string{"nc", "127.0.0.1", relayPort}})
		go io.Copy(io.Discard, s.Stderr)
		go io.WriteString(s.Stdin, hello)
		out := bufio.NewReader(s.Stdout)
		if got, err := out.ReadString('\n'); err == nil {
			if got != hello {
				t.Fatalf("the listener answers %q, want %q", got, hello)
			}
			return s, out
		}
		s.Close()
		select {
		case how := <-ended:
			t.Fatalf("the listener ended before anybody came: %s", how)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("no client reached the listener on the sandbox's loopback")
	return nil, nil
}

// lister is a runner that can name its sandboxes.
type lister interface {
	ListSandboxes(ctx context.Context) ([]runner.Listed, error)
}

// checkNothingListed: what was killed is listed no more, what lives is.
func checkNothingListed(t *testing.T, b *bench) {
	l, ok := b.r.(lister)
	if !ok {
		b.skip(t, "this runner does not list its sandboxes")
	}
	ref := b.idle(t)
	listed := func() bool {
		all, err := l.ListSandboxes(b.ctx)
		if err != nil {
			t.Fatalf("ListSandboxes: %v", err)
		}
		for _, s := range all {
			if s.Ref == ref {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Error("a living sandbox is not listed")
	}
	if err := b.r.KillSandbox(b.ctx, ref); err != nil {
		t.Fatal(err)
	}
	if listed() {
		t.Error("a sandbox that was killed is still listed")
	}
}
