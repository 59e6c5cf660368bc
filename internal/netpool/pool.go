// Package netpool leases small IPv4 subnets of one range to owners, across
// processes and restarts, and lists what the host itself holds.
//
// A lease is an empty file in the data dir, named after subnet and owner, so
// that taking and giving back are one atomic step each and a crash leaves
// either a lease or none. Ranges that the host routes or that the caller names
// are skipped. The package knows nothing of an engine: an engine that refuses
// a subnet as overlapping is told by the caller, through Lease's avoid.
package netpool

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// ErrExhausted is wrapped by Lease when no subnet of the range is free.
var ErrExhausted = errors.New("no free subnet")

// Pool leases the subnets of one size in one range. It is safe for concurrent
// use, also by several processes with the same data dir.
type Pool struct {
	dir  *datadir.Dir
	name string
	rng  netip.Prefix
	bits int
	// host lists the prefixes that the host holds; replaced in tests.
	host func() ([]netip.Prefix, error)
}

// New is the pool called name, which cuts subnets of the given prefix length
// from rng. It refuses ranges that hold no such subnet.
func New(dir *datadir.Dir, name string, rng netip.Prefix, bits int) (*Pool, error) {
	switch {
	case !rng.IsValid() || !rng.Addr().Is4():
		return nil, fmt.Errorf("subnet range %q: want an IPv4 prefix such as 10.213.0.0/16", rng)
	case rng.Masked() != rng:
		return nil, fmt.Errorf("subnet range %q: want the network's own address, %s", rng, rng.Masked())
	case bits < rng.Bits() || bits > 29:
		return nil, fmt.Errorf("subnet range %q: too small for a /%d", rng, bits)
	}
	p := &Pool{dir: dir, name: name, rng: rng, bits: bits, host: HostRanges}
	if err := os.MkdirAll(p.folder(), 0o700); err != nil {
		return nil, fmt.Errorf("subnet leases: %w", err)
	}
	return p, nil
}

// Lease gives owner a subnet that overlaps neither another lease, nor a range
// of the host, nor a prefix in avoid. An owner that holds one already gets the
// same again, unless it is in avoid: then it is exchanged.
func (p *Pool) Lease(owner string, avoid []netip.Prefix) (netip.Prefix, error) {
	if err := checkOwner(owner); err != nil {
		return netip.Prefix{}, err
	}
	unlock, err := p.dir.Lock("netpool-" + p.name)
	if err != nil {
		return netip.Prefix{}, err
	}
	defer unlock()
	leases, err := p.leases()
	if err != nil {
		return netip.Prefix{}, err
	}
	var own []lease
	taken := append([]netip.Prefix(nil), avoid...)
	for _, l := range leases {
		if l.owner == owner {
			own = append(own, l)
			continue
		}
		taken = append(taken, l.subnet)
	}
	if len(own) == 1 && own[0].subnet.Bits() == p.bits && !overlapsAny(own[0].subnet, avoid) {
		return own[0].subnet, nil
	}
	host, err := p.host()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("routes of the host: %w", err)
	}
	s, ok := firstFree(p.rng, p.bits, append(taken, host...))
	if !ok {
		return netip.Prefix{}, p.exhausted(len(leases), append(avoid, host...))
	}
	if err := os.WriteFile(p.file(lease{s, owner}), nil, 0o600); err != nil {
		return netip.Prefix{}, fmt.Errorf("subnet lease: %w", err)
	}
	return s, p.drop(own)
}

// Release gives back whatever owner holds; nothing held is nil.
func (p *Pool) Release(owner string) error {
	leases, err := p.leases()
	if err != nil {
		return err
	}
	var own []lease
	for _, l := range leases {
		if l.owner == owner {
			own = append(own, l)
		}
	}
	return p.drop(own)
}

// Usage counts leases and the subnets the range holds in all.
func (p *Pool) Usage() (used, total int, err error) {
	leases, err := p.leases()
	return len(leases), 1 << (p.bits - p.rng.Bits()), err
}

// Owners lists who holds a lease.
func (p *Pool) Owners() ([]string, error) {
	leases, err := p.leases()
	var out []string
	for _, l := range leases {
		out = append(out, l.owner)
	}
	return out, err
}

func (p *Pool) exhausted(leased int, blocked []netip.Prefix) error {
	var in []string
	for _, b := range blocked {
		if b.Overlaps(p.rng) && len(in) < 3 && !slices.Contains(in, b.String()) {
			in = append(in, b.String())
		}
	}
	err := fmt.Errorf("%w: every /%d of %s is in use (%d leased here)", ErrExhausted, p.bits, p.rng, leased)
	if len(in) > 0 {
		err = fmt.Errorf("%w; routes of the host and other networks hold part of it: %s", err, strings.Join(in, ", "))
	}
	return err
}

// lease is one line of the table, kept as the name of an empty file.
type lease struct {
	subnet netip.Prefix
	owner  string
}

// folderPrefix begins the name of a pool's folder in the data dir.
const folderPrefix = "leases-"

func (p *Pool) folder() string { return p.dir.Path(folderPrefix + p.name) }

func (p *Pool) file(l lease) string {
	return filepath.Join(p.folder(), fmt.Sprintf("%s_%d@%s", l.subnet.Addr(), l.subnet.Bits(), l.owner))
}

// leases reads the table. Leases of an earlier range count too: their owners
// may still be running. Names that are no leases are skipped.
func (p *Pool) leases() ([]lease, error) { return leasesIn(p.folder()) }

// Count is how many subnets of the pool called name are leased in a data dir
// that is not opened; none where there is no such pool yet.
func Count(dataDir, name string) (int, error) {
	l, err := leasesIn(filepath.Join(dataDir, folderPrefix+name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return len(l), err
}

func leasesIn(folder string) ([]lease, error) {
	d, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("subnet leases: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("subnet leases: %w", err)
	}
	out := make([]lease, 0, len(names))
	for _, n := range names {
		subnet, owner, ok := strings.Cut(n, "@")
		pre, err := netip.ParsePrefix(strings.Replace(subnet, "_", "/", 1))
		if ok && err == nil {
			out = append(out, lease{pre, owner})
		}
	}
	return out, nil
}

func (p *Pool) drop(leases []lease) error {
	var errs []error
	for _, l := range leases {
		if err := os.Remove(p.file(l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("subnet lease: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkOwner keeps owners fit for a file name.
func checkOwner(owner string) error {
	if owner == "" || len(owner) > 128 || strings.ContainsAny(owner, "/@\x00") {
		return fmt.Errorf("subnet lease: owner %q cannot be a file name", owner)
	}
	return nil
}
