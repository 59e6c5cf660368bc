package proxy

import (
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// entry is the way by which a request came in.
type entry int

const (
	explicit        entry = iota // the proxy port
	transparentHTTP              // port 80: the Host header names the destination
	tunnelHTTP                   // plain HTTP inside a CONNECT
	tunnelTLS                    // inside a TLS tunnel that is intercepted
)

func (e entry) scheme() string {
	if e == tunnelTLS {
		return "https"
	}
	return "http"
}

func (e entry) defaultPort() uint16 {
	if e == tunnelTLS {
		return 443
	}
	return 80
}

// destination is what a request is for, and what goes upstream as its target.
type destination struct {
	host     string
	port     int // -1 for one that is no port
	target   string
	mismatch bool // the Host header named something else, and was replaced
}

// path is the target without its query, for records.
func (d destination) path() string {
	p, _, _ := strings.Cut(d.target, "?")
	return p
}

// refusalOf is a request that has no destination: source and cause.
type refusalOf struct{ source, cause string }

// locate finds the destination of a request by its form. inside is the CONNECT
// authority of a tunnel; what names another is refused there.
func locate(e entry, inside egress.Authority, req h1.Request) (destination, *refusalOf) {
	scheme, rest, absolute := cutScheme(req.Target)
	switch {
	case absolute && !strings.EqualFold(scheme, e.scheme()):
		d, _ := locateAbsolute(e, inside, req, rest)
		return d, &refusalOf{policy.BadRequest, "the scheme of an absolute target here is " + e.scheme() + " and nothing else"}
	case absolute:
		return locateAbsolute(e, inside, req, rest)
	case e == explicit:
		return destination{}, &refusalOf{policy.BadRequest, "a proxy request is CONNECT host:port, or has an absolute http target"}
	case req.Target[0] != '/' && (req.Target != "*" || req.Method != "OPTIONS"):
		return destination{}, &refusalOf{policy.BadRequest, "the request target is neither a path nor an absolute URL"}
	case !req.HasHost:
		return destination{}, &refusalOf{policy.BadRequest, "the Host header is missing"}
	}
	d := destination{target: req.Target}
	d.host, d.port = splitPort(req.Host, e.defaultPort())
	return d, sameAuthority(e, inside, d)
}

// cutScheme splits "scheme://rest".
func cutScheme(target string) (scheme, rest string, ok bool) {
	i := strings.Index(target, "://")
	if i < 0 || strings.ContainsAny(target[:i], "/?#") {
		return "", "", false
	}
	return target[:i], target[i+3:], true
}

func locateAbsolute(e entry, inside egress.Authority, req h1.Request, rest string) (destination, *refusalOf) {
	if strings.Contains(rest, "#") {
		return destination{}, &refusalOf{policy.BadRequest, "a request target has no fragment"}
	}
	authority, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], rest[i:]
	}
	if target[0] == '?' {
		target = "/" + target
	}
	d := destination{target: target}
	if strings.Contains(authority, "@") {
		return d, &refusalOf{policy.BadRequest, "a request target carries no user information"}
	}
	d.host, d.port = splitPort(authority, e.defaultPort())
	if req.HasHost && !strings.EqualFold(req.Host, authority) {
		h, p := splitPort(req.Host, e.defaultPort())
		d.mismatch = !sameHost(h, d.host) || p != d.port
	}
	return d, sameAuthority(e, inside, d)
}

// splitPort cuts a port off; -1 stands for one that is none.
func splitPort(authority string, defaultPort uint16) (string, int) {
	host, port, _ := egress.SplitAuthority(authority)
	if port == "" {
		return host, int(defaultPort)
	}
	p, err := egress.ParsePort(port)
	if err != nil {
		return host, -1
	}
	return host, int(p)
}

func sameHost(a, b string) bool {
	ha, err := egress.ParseHost(a)
	if err != nil {
		return false
	}
	hb, err := egress.ParseHost(b)
	return err == nil && ha == hb
}

// sameAuthority holds a request inside a tunnel to the tunnel's own authority,
// and one on a transparent port to that port. A malformed authority is left to
// the verdict function to name.
func sameAuthority(e entry, inside egress.Authority, d destination) *refusalOf {
	if e == explicit || d.port < 0 {
		return nil
	}
	if e == transparentHTTP {
		if d.port != 80 {
			return &refusalOf{policy.AuthorityMismatch, "a request to port 80 names another port"}
		}
		return nil
	}
	h, err := egress.ParseHost(d.host)
	if err != nil || h == inside.Host && d.port == int(inside.Port) {
		return nil
	}
	return &refusalOf{policy.AuthorityMismatch, "a request inside a tunnel to " + inside.String() + " names another host or port"}
}
