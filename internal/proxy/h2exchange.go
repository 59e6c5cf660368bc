package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// h2exchange is one request over HTTP/2.
type h2exchange struct {
	h *http2
	t *h2tunnel
	f *flow
	v verdict

	// The transport dials, and hands interim answers on, in goroutines of its own
	// that may outlive the request. What they share with it is below mu.
	mu       sync.Mutex
	bad      *policy.Ruling // why a dial or the origin failed
	dialled  *flow          // what a dial found out
	addr     netip.AddrPort // at the other end of the connection that carries it
	interims int
	over     bool // the answer's head is there, or will not come
}

func (x *h2exchange) run(w http.ResponseWriter, r *http.Request, cred *credential) {
	tr := x.h.plain
	if cred != nil {
		tr, x.f.detail.InjectedBy = x.h.injected, x.v.Host.String()
	}
	up := &countedBody{ReadCloser: r.Body}
	resp, err := tr.RoundTrip(x.outgoing(w, r, cred, up))
	x.settle()
	if err != nil {
		x.refuse(w, x.roundTripRuling(err))
		return
	}
	defer resp.Body.Close()
	switch {
	case resp.ProtoMajor < 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
			Cause: x.v.Authority.String() + " does not speak HTTP/2, which gRPC needs", Hint: "policy allows this host; its server must offer HTTP/2"})
		return
	case resp.StatusCode == http.StatusProxyAuthRequired || resp.StatusCode == http.StatusSwitchingProtocols:
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
			Cause: fmt.Sprintf("%s: the origin answered %d, which it may not", x.v.Authority, resp.StatusCode), Hint: "the far side misbehaves; nothing here can be changed"})
		return
	}
	coding, unread := screenAnswer(x.v.Authority, cred, resp.StatusCode, resp.Header.Values)
	if unread != nil {
		x.refuse(w, *unread)
		return
	}
	x.f.verdict(x.v.Ruling, resp.StatusCode)
	blotHeader(resp.Header, cred)
	down, err := relayH2(w, resp, cred, coding)
	x.f.end(up.n.Load(), down, closeReason(x.t.front.live, err, true))
	if err != nil {
		panic(http.ErrAbortHandler) // resets the stream: a cut answer must not look whole
	}
}

// outgoing builds the request to the origin: the raw path, filtered headers,
// our credential, no trailers.
func (x *h2exchange) outgoing(w http.ResponseWriter, r *http.Request, cred *credential, body io.ReadCloser) *http.Request {
	trace := &httptrace.ClientTrace{GotConn: x.carried, Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		return x.interim(w, cred, code, http.Header(h))
	}}
	ctx := httptrace.WithClientTrace(context.WithValue(r.Context(), dialKey{}, x), trace)
	host := x.v.HostHeader(443)
	out := (&http.Request{
		Method: r.Method, Host: host, Body: body, ContentLength: r.ContentLength, Header: http.Header{},
		URL: &url.URL{Scheme: "https", Host: x.v.Authority.String(), Opaque: rawTarget(host, r.RequestURI)},
	}).WithContext(ctx)
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	o := outbound{methodList: x.h.s.policy.HasMethodList(), inject: cred}
	all := fieldsOf(r.Header)
	for name, values := range r.Header {
		if keepsRequestField(name, all, o) {
			out.Header[name] = values
		}
	}
	if cred != nil {
		out.Header.Set(cred.header, cred.value)
	}
	if r.Header.Get("Te") == "trailers" {
		out.Header.Set("Te", "trailers") // trailers do pass here, and gRPC servers ask
	}
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = []string{""} // none of the library's own
	}
	return out
}

// rawTarget makes the transport send the path byte for byte.
func rawTarget(host, target string) string {
	if strings.HasPrefix(target, "//") {
		return "//" + host + target
	}
	return target
}

func fieldsOf(h http.Header) h1.Fields {
	var out h1.Fields
	for name, values := range h {
		for _, v := range values {
			out = append(out, h1.Field{Name: name, Value: v})
		}
	}
	return out
}

func copyHeader(dst, src http.Header) {
	all := fieldsOf(src)
	for name, values := range src {
		if keepsResponseField(name, all) {
			dst[name] = values
		}
	}
}

// relayH2 hands an answer on, every piece as it comes, with its trailers; of a
// body in a coding nobody asked for, what it decodes to.
func relayH2(w http.ResponseWriter, resp *http.Response, cred *credential, coding string) (int64, error) {
	body := answerReader(resp, cred, coding)
	copyHeader(w.Header(), resp.Header)
	if _, said := w.Header()["Date"]; !said {
		w.Header()["Date"] = nil // none of the library's own
	}
	if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(resp.ContentLength))
	}
	w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return 0, err
	}
	buf := buffers.Get().(*[chunkRoom + copyBuffer + 2]byte)
	defer buffers.Put(buf)
	var n int64
	for {
		k, rerr := body.Read(buf[:copyBuffer])
		if k > 0 {
			m, err := w.Write(buf[:k])
			n += int64(m)
			if err != nil {
				return n, err
			}
			if err := rc.Flush(); err != nil {
				return n, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return n, rerr
		}
	}
	blotHeader(resp.Trailer, cred)
	for name, values := range resp.Trailer {
		if keepsResponseField(name, nil) {
			w.Header()[http.TrailerPrefix+name] = values
		}
	}
	return n, nil
}

// roundTripRuling explains a request that got no answer.
func (x *h2exchange) roundTripRuling(err error) policy.Ruling {
	x.mu.Lock()
	defer x.mu.Unlock()
	if why := x.t.front.live.reason(""); why != "" {
		return wasCut(x.v, why)
	}
	if x.bad != nil {
		return *x.bad
	}
	return policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed, Cause: x.v.Authority.String() + ": " + transportCause(err),
		Hint: "policy allows this host; it did not answer properly"}
}

func transportCause(err error) string {
	if errors.Is(err, context.Canceled) {
		return "the client gave up"
	}
	if isTimeout(err) {
		return noAnswer
	}
	return "the origin closed the connection without an answer"
}

// refuse records and answers a refusal.
func (x *h2exchange) refuse(w http.ResponseWriter, r policy.Ruling) {
	status := dialStatus(&r)
	x.f.verdict(r, status)
	fields, body := refusalParts(x.f, r, status)
	clear(w.Header())
	for _, f := range fields {
		w.Header().Set(f.Name, f.Value)
	}
	w.WriteHeader(status)
	if x.f.ask.method != http.MethodHead {
		w.Write(body)
	}
}
