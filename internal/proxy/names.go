package proxy

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// A wildcard lets a sandbox make names up, and each query carries one to the
// name server of whoever owns the domain. New names below one registrable
// domain are therefore rationed; names that were asked for before are free.
const (
	newNamesBurst = 100
	newNamesEvery = time.Second
	maxKnownNames = 1024 // per domain
	maxDomains    = 256
)

// nameBudget counts new names for each registrable domain.
type nameBudget struct {
	mu      sync.Mutex
	domains map[string]*domainNames
}

type domainNames struct {
	known map[egress.Host]bool
	rate  *rate.Limiter
	used  time.Time
}

// spend reports whether a name may be resolved now.
func (b *nameBudget) spend(h egress.Host, now time.Time) bool {
	domain := h.Registrable()
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.domains[domain]
	if d == nil {
		d = b.enter(domain)
	}
	d.used = now
	if d.known[h] {
		return true
	}
	if !d.rate.AllowN(now, 1) {
		return false
	}
	if len(d.known) >= maxKnownNames {
		clear(d.known)
	}
	d.known[h] = true
	return true
}

// enter makes room for a domain; the one that was used longest ago goes.
func (b *nameBudget) enter(domain string) *domainNames {
	if b.domains == nil {
		b.domains = map[string]*domainNames{}
	}
	if len(b.domains) >= maxDomains {
		oldest := ""
		for name, d := range b.domains {
			if oldest == "" || d.used.Before(b.domains[oldest].used) {
				oldest = name
			}
		}
		delete(b.domains, oldest)
	}
	d := &domainNames{known: map[egress.Host]bool{}, rate: rate.NewLimiter(rate.Every(newNamesEvery), newNamesBurst)}
	b.domains[domain] = d
	return d
}
