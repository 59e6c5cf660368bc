// Package mitm mints the leaf certificates with which the proxy ends TLS for
// hosts that a policy wants to look into, under the run's own CA.
package mitm

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	leafLife   = 24 * time.Hour
	leafEarly  = time.Hour // clocks inside a sandbox may be behind
	leafRenew  = time.Hour // before its end a leaf is minted anew
	leafsCache = 256
)

// Minter mints and keeps leaf certificates.
type Minter struct {
	ca    tls.Certificate
	caCrt *x509.Certificate
	key   *ecdsa.PrivateKey // of all leaves: one key, as one process holds them
	group singleflight.Group

	mu    sync.Mutex
	order *list.List // most recently used first; values are *leaf
	byKey map[egress.Host]*list.Element
}

type leaf struct {
	host egress.Host
	cert *tls.Certificate
	end  time.Time
}

// New reads the run's CA. A certificate that is no CA is refused.
func New(certPEM, keyPEM string) (*Minter, error) {
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		return nil, fmt.Errorf("run CA: %w", err)
	}
	crt, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("run CA: %w", err)
	}
	if !crt.IsCA || !crt.BasicConstraintsValid {
		return nil, errors.New("run CA: the certificate is not a CA")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("leaf key: %w", err)
	}
	return &Minter{ca: pair, caCrt: crt, key: key, order: list.New(), byKey: map[egress.Host]*list.Element{}}, nil
}

// Leaf returns a certificate for exactly this host.
func (m *Minter) Leaf(h egress.Host) (*tls.Certificate, error) {
	if c := m.cached(h, time.Now()); c != nil {
		return c, nil
	}
	v, err, _ := m.group.Do(h.String(), func() (any, error) { return m.mint(h, time.Now()) })
	if err != nil {
		return nil, err
	}
	return v.(*tls.Certificate), nil
}

func (m *Minter) cached(h egress.Host, now time.Time) *tls.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[h]
	if e == nil || now.After(e.Value.(*leaf).end.Add(-leafRenew)) {
		return nil
	}
	m.order.MoveToFront(e)
	return e.Value.(*leaf).cert
}

func (m *Minter) mint(h egress.Host, now time.Time) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("leaf for %s: %w", h, err)
	}
	end := now.Add(leafLife - leafEarly)
	if end.After(m.caCrt.NotAfter) {
		end = m.caCrt.NotAfter
	}
	tpl := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: shortName(h)},
		NotBefore:    now.Add(-leafEarly),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if a, ok := h.Addr(); ok {
		tpl.IPAddresses = []net.IP{a.AsSlice()}
	} else {
		tpl.DNSNames = []string{h.Name()}
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, m.caCrt, &m.key.PublicKey, m.ca.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("leaf for %s: %w", h, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, m.ca.Certificate[0]}, PrivateKey: m.key}
	m.keep(&leaf{host: h, cert: c, end: end})
	return c, nil
}

// shortName fits the 64 bytes that a common name may have; clients look at the
// alternative names anyway.
func shortName(h egress.Host) string {
	if s := h.String(); len(s) <= 64 {
		return s
	}
	return "intercepted host"
}

func (m *Minter) keep(l *leaf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[l.host]; e != nil {
		m.order.Remove(e)
	}
	m.byKey[l.host] = m.order.PushFront(l)
	if m.order.Len() > leafsCache {
		e := m.order.Back()
		m.order.Remove(e)
		delete(m.byKey, e.Value.(*leaf).host)
	}
}
