package docker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// newRealWorld is a world with the real sidecar and the real control plane.
func newRealWorld(t *testing.T) (*world, *control.Server) {
	t.Helper()
	endpoint := testenv.Engine(t)
	dir := testenv.Dir(t)
	testenv.NoLeftovers(t, endpoint, labelInstance+"="+dir.Instance())
	return realWorld(t, endpoint, dir)
}

// realWorld is what a process of this program makes of an installation.
func realWorld(t *testing.T, endpoint string, dir *datadir.Dir) (*world, *control.Server) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	plane := control.New(control.Options{Dir: dir, Log: log})
	r, err := New(Options{Endpoint: endpoint, Dir: dir, Control: plane, Tools: testenv.Tools(t), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.RemoveEgressNetwork(ctx), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{Runner: r, cl: testenv.Client(t, endpoint)}, plane
}

// D-7, K9, K16, K42: the real sidecar, served by the real control plane, is
// ready when CreateSandbox returns, answers its own sandbox with a reason, and
// nobody on its other leg.
func TestRealSidecarAndControlPlane(t *testing.T) {
	w, _ := newRealWorld(t)
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.ProxyConfig.Policy.AllowedDomains = []string{"allowed.example.com"}
		ref := w.startedSandbox(t, spec)
		x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh(
			`printf 'GET http://denied.example.com/ HTTP/1.1\r\nHost: denied.example.com\r\nConnection: close\r\n\r\n' | nc wardyn-proxy 3128`)})
		if err != nil {
			t.Fatal(err)
		}
		res := drain(x, nil)
		if !strings.HasPrefix(res.stdout, "HTTP/1.1 403 ") || !strings.Contains(res.stdout, "denied.example.com") {
			t.Errorf("%s: want a refusal that names the host: %q %q", rt, res.stdout, res.stderr)
		}
		leg := w.address(t, ProxyName(spec.RunID), w.netID(t, w.EgressNetworkName()))
		for _, port := range []uint16{runner.ProxyListenPort, 80, 443} {
			if c, err := net.DialTimeout("tcp", netip.AddrPortFrom(leg, port).String(), 2*time.Second); err == nil {
				c.Close()
				t.Errorf("%s: the host reaches port %d over the egress leg", rt, port)
			}
		}
	}
}
