package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// originName is what the origin is called; its address is pinned.
const originName = "origin.test"

// origin is the far side of every measurement, on an address of the machine
// that is not loopback, since wardyn-proxy never dials loopback.
type origin struct {
	ip                    string
	plain, raw, bulk, tls string // ports
	caPEM, caKeyPEM       []byte
	hello                 []byte
	pool                  *x509.CertPool
	bulkBytes             int64
}

const payloadSize = 1024

func newOrigin(mib int) (*origin, error) {
	o := &origin{bulkBytes: int64(mib) << 20}
	var err error
	if o.ip, err = machineAddress(); err != nil {
		return nil, err
	}
	cert, err := o.certificates()
	if err != nil {
		return nil, err
	}
	if o.hello, err = clientHello(); err != nil {
		return nil, err
	}
	payload := make([]byte, payloadSize)
	web := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain")
		w.Write(payload)
	})
	listen := func(port *string) net.Listener {
		l, lerr := net.Listen("tcp", net.JoinHostPort(o.ip, "0"))
		err = errors.Join(err, lerr)
		if lerr == nil {
			_, *port, _ = net.SplitHostPort(l.Addr().String())
		}
		return l
	}
	lp, lr, lb, lt := listen(&o.plain), listen(&o.raw), listen(&o.bulk), listen(&o.tls)
	if err != nil {
		return nil, err
	}
	go http.Serve(lp, web)
	srv := &http.Server{Handler: web, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}}
	go srv.ServeTLS(lt, "", "")
	go o.each(lr, func(c net.Conn) { c.Write(payload) })
	go o.each(lb, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		for n := int64(0); n < o.bulkBytes; n += int64(len(buf)) {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	})
	return o, nil
}

// each answers every connection once its ClientHello is there.
func (o *origin) each(l net.Listener, answer func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if _, err := io.ReadFull(c, make([]byte, len(o.hello))); err == nil {
				answer(c)
			}
		}()
	}
}

func machineAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no IPv4 address but loopback")
}

// certificates makes a CA, used for the origin and for interception alike, and
// the origin's certificate.
func (o *origin) certificates() (tls.Certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(caKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	o.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	o.caKeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	o.pool = x509.NewCertPool()
	o.pool.AppendCertsFromPEM(o.caPEM)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: originName}, DNSNames: []string{originName}, IPAddresses: []net.IP{net.ParseIP(o.ip)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// clientHello returns the first message of a TLS client that asks for the origin.
func clientHello() ([]byte, error) {
	near, far := net.Pipe()
	defer far.Close()
	go func() { tls.Client(near, &tls.Config{ServerName: originName}).Handshake(); near.Close() }()
	buf := make([]byte, 16<<10)
	n, err := far.Read(buf)
	return buf[:n], err
}
