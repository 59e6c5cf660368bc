package mitm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func pair(t *testing.T, isCA bool) (certPEM, keyPEM string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "run CA"}, IsCA: isCA, BasicConstraintsValid: true, MaxPathLenZero: isCA,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk})), cert
}

func host(t *testing.T, s string) egress.Host {
	t.Helper()
	h, err := egress.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestE59LeafIsForOneHost(t *testing.T) {
	certPEM, keyPEM, ca := pair(t, true)
	m, err := New(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	for name, dns := range map[string]string{"api.test": "api.test", "8.8.8.8": "8.8.8.8", "[2606:4700::1]": "2606:4700::1"} {
		c, err := m.Leaf(host(t, name))
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: dns}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if leaf.VerifyHostname("other.test") == nil {
			t.Errorf("%s: the leaf is good for another host", name)
		}
		if len(c.Certificate) != 2 || leaf.SerialNumber.BitLen() < 64 || time.Until(leaf.NotAfter) > 24*time.Hour {
			t.Errorf("%s: chain of %d, serial of %d bits, until %s", name, len(c.Certificate), leaf.SerialNumber.BitLen(), leaf.NotAfter)
		}
		if again, _ := m.Leaf(host(t, name)); again != c {
			t.Errorf("%s: minted twice", name)
		}
	}
}

func TestLeafCacheIsBounded(t *testing.T) {
	certPEM, keyPEM, _ := pair(t, true)
	m, err := New(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for i := range leafsCache + 20 {
		if _, err := m.Leaf(host(t, fmt.Sprintf("h%d.test", i))); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.byKey) != leafsCache || m.order.Len() != leafsCache {
		t.Errorf("%d leaves kept", len(m.byKey))
	}
	if m.cached(host(t, "h0.test"), time.Now()) != nil {
		t.Error("the oldest leaf is still kept")
	}
	if m.cached(host(t, fmt.Sprintf("h%d.test", leafsCache+19)), time.Now().Add(leafLife)) != nil {
		t.Error("an expired leaf is handed out")
	}
}

func TestP64BadCA(t *testing.T) {
	certPEM, keyPEM, _ := pair(t, false)
	if _, err := New(certPEM, keyPEM); err == nil {
		t.Error("a certificate that is no CA is accepted")
	}
	good, _, _ := pair(t, true)
	if _, err := New(good, keyPEM); err == nil {
		t.Error("a key of another certificate is accepted")
	}
	if _, err := New("", ""); err == nil {
		t.Error("nothing is accepted")
	}
}
