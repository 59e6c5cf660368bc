package proxy

import (
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/redact"
)

// credential is a header that the proxy sets in the sandbox's place.
type credential struct {
	header, value string
	forms         *redact.Patterns // that must not come back
}

func newCredential(header, value string) credential {
	return credential{header: header, value: value, forms: redact.Of(value)}
}

// outbound says how a request is rewritten on its way out.
type outbound struct {
	methodList bool        // method overrides are stripped
	inject     *credential // nil for none
	websocket  bool        // offer the upgrade
	proxyAuth  string      // for the upstream proxy that gets the request
}

// requestHead builds the head that goes to the origin: target byte for byte,
// our own Host and framing, the rest of the fields in their order.
func requestHead(method, target, host string, in h1.Fields, length int64, o outbound) []byte {
	b := make([]byte, 0, 512)
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	for _, f := range in {
		if keepsRequestField(f.Name, in, o) {
			b = appendField(b, f)
		}
	}
	if o.websocket {
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	}
	if o.proxyAuth != "" {
		b = appendField(b, h1.Field{Name: "Proxy-Authorization", Value: o.proxyAuth})
	}
	if o.inject != nil {
		b = appendField(b, h1.Field{Name: o.inject.header, Value: o.inject.value})
	}
	b = appendFraming(b, length, saysLength(in))
	return append(b, "\r\n"...)
}

func appendField(b []byte, f h1.Field) []byte {
	b = append(b, f.Name...)
	b = append(b, ": "...)
	b = append(b, f.Value...)
	return append(b, "\r\n"...)
}

// appendFraming writes the one header that delimits a body. A length of zero is
// written where the sandbox wrote it.
func appendFraming(b []byte, length int64, zero bool) []byte {
	switch {
	case length == h1.LengthChunked:
		return append(b, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || length == 0 && zero:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		return append(b, "\r\n"...)
	}
	return b
}

func saysLength(in h1.Fields) bool {
	_, ok := in.Get("Content-Length")
	return ok
}

// keepsRequestField reports whether a field of the sandbox goes to the origin.
func keepsRequestField(name string, all h1.Fields, o outbound) bool {
	switch {
	case strings.EqualFold(name, "Host"), strings.EqualFold(name, "Content-Length"), hopByHop(name), ours(name),
		forwarding(name), namedInConnection(name, all):
		return false
	case o.methodList && methodOverride(name):
		return false
	case o.inject != nil && (credentialField(name) || strings.EqualFold(name, o.inject.header) || shapesAnswer(name)):
		return false
	}
	return true
}

// keepsResponseField reports whether a field of the origin goes to the sandbox.
func keepsResponseField(name string, all h1.Fields) bool {
	return !strings.EqualFold(name, "Content-Length") && !hopByHop(name) && !ours(name) &&
		!strings.EqualFold(name, "Proxy-Status") && !namedInConnection(name, all)
}

// hopByHop reports fields that speak of one connection only.
func hopByHop(name string) bool {
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "TE")
	case 7:
		return strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Upgrade")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 14:
		return strings.EqualFold(name, "HTTP2-Settings")
	case 16:
		return strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	case 18:
		return strings.EqualFold(name, "Proxy-Authenticate")
	case 19:
		return strings.EqualFold(name, "Proxy-Authorization")
	}
	return false
}

func namedInConnection(name string, all h1.Fields) bool {
	return all.Has("Connection", name)
}

// ours reports the proxy's own header family, which nobody else may write.
func ours(name string) bool { return hasPrefixFold(name, "X-Wardyn-") }

// forwarding reports fields that claim who a request is from, or tell a proxy
// further up where to send it.
func forwarding(name string) bool {
	return strings.EqualFold(name, "Forwarded") || hasPrefixFold(name, "X-Forwarded-") || strings.EqualFold(name, "X-Real-IP") ||
		strings.EqualFold(name, "Via") || strings.EqualFold(name, "X-Upstream-Https-Proxy")
}

func methodOverride(name string) bool {
	return strings.EqualFold(name, "X-HTTP-Method-Override") || strings.EqualFold(name, "X-HTTP-Method") ||
		strings.EqualFold(name, "X-Method-Override")
}

// credentialField reports the family of fields in which clients send
// credentials; where one is injected all of them go.
func credentialField(name string) bool { return isField(name, credentialFields) }

var credentialFields = []string{"Cookie", "Api-Key", "X-Api-Key", "X-Auth-Token", "Authorization"}

// isField reports whether a field's name is one of these, in any case.
func isField(name string, fields []string) bool {
	for _, f := range fields {
		if len(f) == len(name) && strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// responseHead builds the head that goes to the sandbox. length is the body's,
// or one of h1's special lengths; explicit asks for a Content-Length of zero.
func responseHead(resp h1.Response, length int64, explicit, keep bool) []byte {
	b := h1.AppendStatus(make([]byte, 0, 1024), resp.Status, resp.Reason)
	for _, f := range resp.Fields {
		if keepsResponseField(f.Name, resp.Fields) {
			b = appendField(b, f)
		}
	}
	b = appendFraming(b, length, explicit)
	if !keep {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// websocketUpgrade reports whether a request asks for the one upgrade that passes.
func websocketUpgrade(method string, in h1.Fields) bool {
	up, _ := in.Get("Upgrade")
	return method == "GET" && strings.EqualFold(up, "websocket") && in.Has("Connection", "Upgrade")
}
