package proxy

import (
	"bytes"
	"errors"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/clienthello"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// firstBytes is what a tunnel begins with.
type firstBytes struct {
	http bool
	sni  string
	alpn string
}

// peek reads a tunnel's first bytes, without consuming them, until it is clear
// what they are and whether they may pass.
func (c *front) peek(a egress.Authority) (firstBytes, *policy.Ruling) {
	c.conn.SetReadDeadline(time.Now().Add(peekTimeout))
	defer c.conn.SetReadDeadline(time.Time{})
	for {
		b := c.src.Buffered()
		if len(b) > 0 && b[0] == 0x16 {
			hello, err := clienthello.Parse(b)
			if !errors.Is(err, clienthello.ErrShort) {
				return judgeHello(hello, err, a.Host)
			}
		} else if len(b) > 0 {
			switch beginsHTTP(b) {
			case yes:
				if a.Port != 443 {
					return firstBytes{http: true}, nil
				}
				return firstBytes{}, notTLS("plain HTTP in a tunnel to port 443")
			case no:
				return firstBytes{}, notTLS("the first bytes are neither TLS nor HTTP")
			}
		}
		if err := c.src.Fill(clienthello.MaxSize); err != nil {
			return firstBytes{}, notTLS(silence(len(b), err))
		}
	}
}

func silence(n int, err error) string {
	switch {
	case n == 0 && isTimeout(err):
		return "the client sent nothing; a protocol in which the server speaks first needs an entry with +tcp"
	case n == 0:
		return "the client left without sending anything"
	}
	return "the first bytes are an incomplete message"
}

func notTLS(cause string) *policy.Ruling {
	return &policy.Ruling{Decision: egress.Deny, Source: policy.NotTLS, Cause: cause,
		Hint: `a tunnel carries TLS unless the allow entry says "host:port+tcp"`}
}

// judgeHello holds a ClientHello to the host that the tunnel is for.
func judgeHello(h clienthello.Hello, err error, host egress.Host) (firstBytes, *policy.Ruling) {
	mismatch := func(cause string) (firstBytes, *policy.Ruling) {
		return firstBytes{}, &policy.Ruling{Decision: egress.Deny, Source: policy.SNIMismatch, Cause: cause,
			Hint: "open the tunnel to the host that the TLS handshake names"}
	}
	_, literal := host.Addr()
	switch {
	case errors.Is(err, clienthello.ErrBadSNI):
		return mismatch("the server name extension of the TLS handshake is broken")
	case err != nil:
		return firstBytes{}, notTLS("the TLS handshake does not parse")
	case len(h.ServerNames) > 1:
		return mismatch("the TLS handshake names more than one server")
	case len(h.ServerNames) == 0 && !literal:
		return mismatch("the TLS handshake names no server; the tunnel is for " + host.String())
	case len(h.ServerNames) == 1 && !namesHost(h.ServerNames[0], host):
		return mismatch("the TLS handshake names " + printable(h.ServerNames[0]) + ", the tunnel is for " + host.String())
	case h.ECH:
		return firstBytes{}, &policy.Ruling{Decision: egress.Deny, Source: policy.ECH,
			Cause: "the TLS handshake may hide its real server name (encrypted ClientHello)",
			Hint:  "switch ECH off in the client, or let the author intercept this host"}
	}
	out := firstBytes{sni: host.String()}
	if len(h.ALPN) > 0 {
		out.alpn = h.ALPN[0]
	}
	return out, nil
}

func namesHost(sni string, host egress.Host) bool {
	h, err := egress.ParseHost(sni)
	if err != nil {
		h, err = egress.ParseHost("[" + sni + "]")
	}
	return err == nil && h == host
}

type answer int

const (
	no answer = iota
	yes
	unsure
)

// beginsHTTP tells whether bytes begin an HTTP/1 request: a method, a blank,
// and a path, an absolute URL or an asterisk.
func beginsHTTP(b []byte) answer {
	i := 0
	for i < len(b) && i <= 32 && (b[i] >= 'A' && b[i] <= 'Z' || b[i] == '-') {
		i++
	}
	switch {
	case i == len(b) && i <= 32:
		return unsure
	case i == 0 || i > 32 || b[i] != ' ':
		return no
	case i+1 == len(b):
		return unsure
	}
	rest := b[i+1:]
	if rest[0] == '/' || rest[0] == '*' {
		return yes
	}
	const scheme = "http://"
	n := min(len(rest), len(scheme))
	if !bytes.EqualFold(rest[:n], []byte(scheme[:n])) {
		return no
	}
	if n < len(scheme) {
		return unsure
	}
	return yes
}
