package netpool

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// newPool is a pool on a host that holds the given ranges.
func newPool(t *testing.T, rng string, bits int, host ...netip.Prefix) *Pool {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir.RunRoot()); dir.RemoveRunRoot() })
	return poolIn(t, dir, rng, bits, host...)
}

func poolIn(t *testing.T, dir *datadir.Dir, rng string, bits int, host ...netip.Prefix) *Pool {
	t.Helper()
	p, err := New(dir, "test", pfx(rng), bits)
	if err != nil {
		t.Fatal(err)
	}
	p.host = func() ([]netip.Prefix, error) { return host, nil }
	return p
}

func (p *Pool) mustLease(t *testing.T, owner string, avoid ...netip.Prefix) netip.Prefix {
	t.Helper()
	s, err := p.Lease(owner, avoid)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// S4, budget: a /16 gives 8,192 runs, each its own; then it is exhausted, and
// one that ends makes room for one.
func TestS4LeaseAll(t *testing.T) {
	p := newPool(t, "10.213.0.0/16", 29)
	seen := make(map[netip.Prefix]bool)
	// What other processes leased is a file each; 8,000 of them are there at once.
	for i, a := 0, p.rng.Addr(); i < 8000; i++ {
		l := lease{netip.PrefixFrom(a, 29), fmt.Sprintf("run-%d", i)}
		if err := os.WriteFile(p.file(l), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		seen[l.subnet] = true
		for range 8 {
			a = a.Next()
		}
	}
	for i := 8000; i < 8192; i++ {
		s := p.mustLease(t, fmt.Sprintf("run-%d", i))
		if seen[s] || s.Bits() != 29 || !p.rng.Contains(s.Addr()) || s.Masked() != s {
			t.Fatalf("lease %d: %v", i, s)
		}
		seen[s] = true
	}
	_, err := p.Lease("one-more", nil)
	if !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "10.213.0.0/16") || !strings.Contains(err.Error(), "8192") {
		t.Errorf("err = %v", err)
	}
	if used, total, err := p.Usage(); used != 8192 || total != 8192 || err != nil {
		t.Errorf("usage %d of %d, %v", used, total, err)
	}
	if err := p.Release("run-4711"); err != nil {
		t.Fatal(err)
	}
	if got := p.mustLease(t, "one-more"); got != pfx("10.213.147.56/29") {
		t.Errorf("got %v, want the one given back", got)
	}
}

// K3: leases survive the process, an owner gets its own again, and one that is
// taken elsewhere is exchanged.
func TestK3LeaseIsKept(t *testing.T) {
	p := newPool(t, "10.213.0.0/16", 29)
	first := p.mustLease(t, "a")
	again := poolIn(t, p.dir, "10.213.0.0/16", 29)
	if got := again.mustLease(t, "a"); got != first {
		t.Errorf("after a restart %v, before %v", got, first)
	}
	if got := again.mustLease(t, "b"); got == first {
		t.Error("another owner got the same")
	}
	moved := again.mustLease(t, "a", first)
	if moved == first {
		t.Error("kept although it is to be avoided")
	}
	if used, _, _ := p.Usage(); used != 2 {
		t.Errorf("%d leases, want 2: the exchanged one is given back", used)
	}
	if err := errors.Join(p.Release("a"), p.Release("a"), p.Release("never")); err != nil {
		t.Error(err)
	}
	if owners, err := p.Owners(); err != nil || len(owners) != 1 || owners[0] != "b" {
		t.Errorf("owners %v, %v", owners, err)
	}
}

// Leases of a range that was configured before go on counting, and their owners
// move on with their next lease.
func TestLeasesOfAnEarlierRange(t *testing.T) {
	old := newPool(t, "10.213.0.0/28", 29)
	old.mustLease(t, "a")
	now := poolIn(t, old.dir, "10.213.0.0/16", 28)
	if got := now.mustLease(t, "b"); got != pfx("10.213.0.16/28") {
		t.Errorf("got %v, want the first that misses the old lease", got)
	}
	if got := now.mustLease(t, "a"); got.Bits() != 28 {
		t.Errorf("got %v, want the new size", got)
	}
}

// D-3, K3: ranges of the host and of other networks are passed over, whichever
// of the two is larger.
func TestFirstFree(t *testing.T) {
	for _, tc := range []struct {
		name  string
		taken []string
		want  string // "" is none
	}{
		{"nothing taken", nil, "10.0.0.0/29"},
		{"exactly the first", []string{"10.0.0.0/29"}, "10.0.0.8/29"},
		{"inside the first", []string{"10.0.0.7/32"}, "10.0.0.8/29"},
		{"just before the range", []string{"9.255.255.0/24"}, "10.0.0.0/29"},
		{"reaching into the range", []string{"8.0.0.0/6", "10.0.0.0/27"}, ""},
		{"larger than a lease", []string{"10.0.0.0/27"}, "10.0.0.32/29"},
		{"a gap", []string{"10.0.0.0/29", "10.0.0.16/28"}, "10.0.0.8/29"},
		{"a gap that is too narrow for nobody", []string{"10.0.0.4/30", "10.0.0.8/30"}, "10.0.0.16/29"},
		{"nested", []string{"10.0.0.0/27", "10.0.0.0/32", "10.0.0.40/29"}, "10.0.0.32/29"},
		{"the last", []string{"10.0.0.0/27", "10.0.0.32/28", "10.0.0.48/29"}, "10.0.0.56/29"},
		{"all", []string{"10.0.0.0/26"}, ""},
		{"a route over everything", []string{"0.0.0.0/1"}, ""},
		{"IPv6 is no matter", []string{"fd00::/8"}, "10.0.0.0/29"},
	} {
		var taken []netip.Prefix
		for _, s := range tc.taken {
			taken = append(taken, pfx(s))
		}
		got, ok := firstFree(pfx("10.0.0.0/26"), 29, taken)
		if ok != (tc.want != "") || ok && got != pfx(tc.want) {
			t.Errorf("%s: %v, %v; want %q", tc.name, got, ok, tc.want)
		}
	}
	if got, ok := firstFree(pfx("255.255.255.240/28"), 29, []netip.Prefix{pfx("255.255.255.240/29")}); !ok || got != pfx("255.255.255.248/29") {
		t.Errorf("at the end of the address space: %v %v", got, ok)
	}
}

// S5: who blocks the pool is said, once.
func TestExhaustedNamesTheBlockers(t *testing.T) {
	p := newPool(t, "10.213.0.0/28", 29, pfx("10.0.0.0/8"), pfx("10.0.0.0/8"))
	if _, err := p.Lease("a", nil); !errors.Is(err, ErrExhausted) || strings.Count(err.Error(), "10.0.0.0/8") != 1 {
		t.Errorf("err = %v", err)
	}
	p.host = func() ([]netip.Prefix, error) { return nil, errors.New("cannot look") }
	if _, err := p.Lease("a", nil); err == nil || errors.Is(err, ErrExhausted) {
		t.Errorf("err = %v: not having been able to look is not exhaustion", err)
	}
}

func TestNewRefusesBadRanges(t *testing.T) {
	p := newPool(t, "10.213.0.0/29", 29)
	for _, rng := range []netip.Prefix{{}, pfx("fd00::/64"), pfx("10.0.0.0/30"), netip.MustParsePrefix("10.0.0.1/16")} {
		if _, err := New(p.dir, "x", rng, 29); err == nil {
			t.Errorf("%v passes", rng)
		}
	}
	for _, owner := range []string{"", "a/b", "a@b", strings.Repeat("x", 129)} {
		if _, err := p.Lease(owner, nil); err == nil {
			t.Errorf("owner %q passes", owner)
		}
	}
}

// Several processes lease at once: nobody gets what another has.
func TestConcurrentLeases(t *testing.T) {
	p := newPool(t, "10.213.0.0/16", 29)
	var wg sync.WaitGroup
	got := make([]netip.Prefix, 60)
	for i := range got {
		wg.Go(func() {
			own, err := New(p.dir, "test", p.rng, 29)
			if err != nil {
				t.Error(err)
				return
			}
			own.host = p.host
			if got[i], err = own.Lease(fmt.Sprint(i), nil); err != nil {
				t.Error(err)
			}
			if i%3 == 0 {
				if err := own.Release(fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				got[i] = netip.Prefix{}
			}
		})
	}
	wg.Wait()
	seen := make(map[netip.Prefix]bool)
	for _, s := range got {
		if s.IsValid() && seen[s] {
			t.Errorf("%v was leased twice", s)
		}
		seen[s] = true
	}
}

func TestPlanOf(t *testing.T) {
	p := PlanOf(pfx("10.213.0.15/29"))
	if p.Subnet != pfx("10.213.0.8/29") || p.Gateway.String() != "10.213.0.9" || p.Sidecar.String() != "10.213.0.10" || p.Agent.String() != "10.213.0.11" {
		t.Errorf("%+v", p)
	}
}

// The kernel prints addresses in host byte order.
func TestParseRoutes(t *testing.T) {
	const table = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
tun0	0100000A	00000000	0005	0	0	0	FFFFFFFF	0	0	0
`
	got, err := parseRoutes(strings.NewReader(table))
	if err != nil || len(got) != 2 || got[0] != pfx("172.17.0.0/16") || got[1] != pfx("10.0.0.1/32") {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseRoutes(strings.NewReader("eth0 zz 0 1 0 0 0 FF 0 0 0\n")); err == nil {
		t.Error("nonsense passes")
	}
}

// TestHostAddressesOfNow: an address that an interface gains is in the next list,
// and one that it loses is not.
func TestHostAddressesOfNow(t *testing.T) {
	ip, err := exec.LookPath("ip")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("a network namespace of the test's own needs root and ip")
	}
	done := make(chan struct{})
	go func() { // its thread ends with it, and the namespace with that
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		const gained = "44.44.44.1"
		for _, step := range []struct {
			args string
			held bool
		}{{"", false}, {"address add " + gained + "/24 dev lo", true}, {"address delete " + gained + "/24 dev lo", false}} {
			if step.args != "" {
				if out, err := exec.Command(ip, strings.Fields(step.args)...).CombinedOutput(); err != nil {
					t.Errorf("ip %s: %v: %s", step.args, err, out)
				}
			}
			addrs, err := HostAddresses()
			if held := slices.Contains(addrs, netip.MustParseAddr(gained)); err != nil || held != step.held {
				t.Errorf("after %q: %v, %v", step.args, addrs, err)
			}
		}
	}()
	<-done
}

func TestHostAddresses(t *testing.T) {
	addrs, err := HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, a := range addrs {
		found = found || a.IsLoopback()
	}
	if !found {
		t.Errorf("no loopback in %v", addrs)
	}
	if _, err := HostRanges(); err != nil {
		t.Error(err)
	}
}
