package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/uuid"
)

// T57: a run's CA is its own, on P-256, signs leaves and no other CA, lasts
// 365 days, and its key is in PKCS#8.
func TestT57MintCA(t *testing.T) {
	run := uuid.New()
	crt, key, err := MintCA(run)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(crt), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pub, ok := ca.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P256() || !ca.IsCA || !ca.MaxPathLenZero || ca.MaxPathLen != 0 || ca.CheckSignatureFrom(ca) != nil {
		t.Errorf("%+v", ca)
	}
	if left := time.Until(ca.NotAfter); left < 364*24*time.Hour || left > 365*24*time.Hour {
		t.Errorf("it lasts %v", left)
	}
	if _, again, _ := MintCA(run); again == key {
		t.Error("two runs share a key")
	}
	if block := key[:27]; block != "-----BEGIN PRIVATE KEY-----" {
		t.Errorf("the key is in %q", block)
	}
}
