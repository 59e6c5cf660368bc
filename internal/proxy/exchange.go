package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// exchange is one request on its way to an origin and the answer on its way back.
type exchange struct {
	c   *front
	f   *flow
	req h1.Request
	d   destination
	v   verdict
	tls bool // towards the origin
	out outbound
	// again may ask for another try after an answer whose body is not wanted.
	again func(h1.Response) bool

	up       *origin.Conn
	body     *h1.Body
	pump     *pump
	sentUp   int64
	sentDown int64
}

func (x *exchange) run(ctx context.Context) step {
	if x.body == nil {
		x.body = h1.NewBody(x.c.src, x.req.Length)
	}
	resp, bad := x.roundTrip(ctx, false)
	if bad != nil && bad.again {
		resp, bad = x.roundTrip(ctx, true)
	}
	if bad == nil && x.again != nil && x.req.Length == 0 && x.again(resp) {
		x.up.Close()
		resp, bad = x.roundTrip(ctx, true)
	}
	if bad != nil {
		return x.fail(bad)
	}
	return x.answer(resp)
}

// failure is an exchange that got no answer: what to say, and whether another
// connection may be tried since nothing was done yet.
type failure struct {
	ruling policy.Ruling
	status int
	again  bool
}

// roundTrip sends the request and returns the head of the final answer.
func (x *exchange) roundTrip(ctx context.Context, fresh bool) (h1.Response, *failure) {
	up, bad := x.connect(ctx, fresh)
	if bad != nil {
		return h1.Response{}, &failure{ruling: *bad, status: dialStatus(bad)}
	}
	x.up = up
	if x.c.s.through(x.v.Authority) {
		x.f.viaParent()
	} else {
		x.f.detail.Dialed = up.Addr.Addr().String()
	}
	x.c.live.upstream(up.Conn)
	host := x.v.HostHeader(80)
	if x.tls {
		host = x.v.HostHeader(443)
	}
	target := x.d.target
	x.out.proxyAuth = ""
	if up.Hop {
		target, x.out.proxyAuth = "http://"+host+target, x.c.s.parent.auth
	}
	head := requestHead(x.req.Method, target, host, x.req.Fields, x.req.Length, x.out)
	if err := x.send(head); err != nil {
		return h1.Response{}, x.broken(err)
	}
	for {
		resp, err := h1.ReadResponse(x.up.Src, x.req.Method)
		if err != nil {
			return h1.Response{}, x.broken(err)
		}
		if resp.Status >= 200 || resp.Status == http.StatusSwitchingProtocols {
			return resp, nil
		}
		if x.req.Minor == 1 { // an interim answer: the 100 that a client waits for, early hints
			if err := x.c.write(responseHead(resp, 0, false, true)); err != nil {
				return h1.Response{}, x.broken(err)
			}
		}
	}
}

// send writes the head, and the body: at once when all of it is here, else from
// a goroutine of its own so that an early answer is seen.
func (x *exchange) send(head []byte) error {
	if n := x.req.Length; n > 0 && !x.body.Peeked() && int64(len(x.c.src.Buffered())) >= n {
		b := append(head, x.c.src.Buffered()[:n]...)
		x.c.src.Discard(int(n))
		x.body.Skip(n)
		_, err := x.up.Write(b)
		x.sentUp = n
		return err
	}
	if _, err := x.up.Write(head); err != nil {
		return err
	}
	if x.req.Length != 0 {
		x.pump = startPump(x.up, x.body, x.req.Length)
	}
	return nil
}

// broken explains an exchange that ended before an answer. The connection is
// poisoned whatever the cause.
func (x *exchange) broken(err error) *failure {
	x.up.Close()
	reused, started := x.up.Reused, x.req.Length != 0
	if x.pump != nil {
		perr := x.pump.stop(x.c.conn)
		x.sentUp = x.pump.n
		var he *h1.Error
		if errors.As(perr, &he) {
			return &failure{status: he.Status, ruling: policy.Ruling{Decision: egress.Deny, Source: policy.BadRequest,
				Cause: "the body of the request: " + he.Reason, Hint: hintOf(policy.BadRequest)}}
		}
	}
	if reused && !started && idempotent(x.req.Method) && !isHTTPError(err) {
		return &failure{again: true}
	}
	cause := "the origin closed the connection without an answer"
	if isHTTPError(err) {
		cause = err.Error()
	}
	return &failure{status: http.StatusBadGateway, ruling: policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
		Cause: fmt.Sprintf("%s: %s", x.v.Authority, cause), Hint: "policy allows this host; it did not answer properly"}}
}

func isHTTPError(err error) bool {
	var he *h1.Error
	return errors.As(err, &he)
}

func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PROPFIND":
		return true
	}
	return false
}

func dialStatus(r *policy.Ruling) int {
	if strings.HasSuffix(r.Cause, noAnswer) {
		return http.StatusGatewayTimeout
	}
	return statusFor(*r)
}

// fail answers an exchange that got nowhere. Where the body was on its way the
// connection from the sandbox ends as well.
func (x *exchange) fail(bad *failure) step {
	if x.req.Length == 0 || x.body.Done() {
		x.req.Length = 0
	} else if x.pump != nil {
		x.req.Close = true
	}
	return x.c.refuse(x.f, x.req, bad.ruling, bad.status)
}

// answer hands the origin's answer on.
func (x *exchange) answer(resp h1.Response) step {
	switch {
	case resp.Status == http.StatusSwitchingProtocols && x.out.websocket && isWebSocket(resp):
		return x.upgrade(resp)
	case resp.Status == http.StatusSwitchingProtocols:
		return x.unwanted(policy.DialFailed, "the origin switched protocols although nobody asked")
	case resp.Status == http.StatusProxyAuthRequired && x.v.through:
		return x.unwanted(policy.UpstreamProxy, "the upstream proxy wants other credentials (407)")
	case resp.Status == http.StatusProxyAuthRequired:
		return x.unwanted(policy.DialFailed, "the origin answered 407, which only a proxy may")
	}
	resp = x.blot(resp)
	x.f.verdict(x.v.Ruling, resp.Status)
	keep := !x.req.Close
	err := x.relay(resp, keep)
	clean := err == nil && x.settleBody()
	x.f.end(x.sentUp, x.sentDown, closeReason(err, clean))
	if err == nil && !resp.Close && clean {
		x.c.live.upstream(nil)
		x.c.s.pool.Put(x.key(), x.up)
	} else {
		x.up.Close()
	}
	if !keep || !clean {
		x.c.linger()
		return hangup
	}
	return proceed
}

func isWebSocket(resp h1.Response) bool {
	up, _ := resp.Fields.Get("Upgrade")
	return strings.EqualFold(up, "websocket")
}

func closeReason(err error, clean bool) string {
	switch {
	case err != nil:
		return "aborted"
	case !clean:
		return "request body not read to its end"
	}
	return "done"
}

// unwanted refuses an answer that must not reach the sandbox.
func (x *exchange) unwanted(source, cause string) step {
	x.up.Close()
	x.settleBody()
	x.req.Close = true
	return x.c.refuse(x.f, x.req, policy.Ruling{Decision: egress.Deny, Source: source,
		Cause: x.v.Authority.String() + ": " + cause, Hint: "the far side misbehaves; nothing here can be changed"}, http.StatusBadGateway)
}

// settleBody ends the request's body: true when all of it was sent. An origin
// may answer before it has read everything; the rest is waited for briefly.
func (x *exchange) settleBody() bool {
	if x.pump == nil {
		return true
	}
	select {
	case <-x.pump.done:
	case <-time.After(250 * time.Millisecond):
		x.pump.stop(x.c.conn)
	}
	x.sentUp = x.pump.n
	return x.pump.err == nil
}

// upgrade relays a WebSocket: the 101 first, then bytes in both directions.
func (x *exchange) upgrade(resp h1.Response) step {
	resp = x.blot(resp)
	x.f.verdict(x.v.Ruling, resp.Status)
	head := h1.AppendStatus(nil, resp.Status, resp.Reason)
	for _, f := range resp.Fields {
		if keepsResponseField(f.Name, resp.Fields) {
			head = appendField(head, f)
		}
	}
	head = append(head, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"...)
	head = append(head, x.up.Src.Buffered()...)
	if x.c.write(head) != nil {
		x.up.Close()
		x.f.end(0, 0, "aborted")
		return hangup
	}
	x.c.relay(x.f, x.up.Conn)
	return hangup
}

// relay writes the answer's head and body to the sandbox.
func (x *exchange) relay(resp h1.Response, keep bool) error {
	if bodiless(x.req.Method, resp.Status) {
		return x.c.write(withLength(resp, responseHead(resp, 0, false, keep)))
	}
	framing := resp.Length
	if framing < 0 { // chunks keep the connection open; HTTP/1.0 does not know them
		framing = h1.LengthChunked
		if x.req.Minor == 0 {
			framing = h1.LengthUntilClose
		}
	}
	head := responseHead(resp, framing, true, keep)
	n, err := relayBody(x.c.conn, head, x.answerBody(resp), x.up, framing)
	x.sentDown = n
	return err
}

// bodiless reports answers that never have a body, whatever their head says.
func bodiless(method string, status int) bool {
	return method == "HEAD" || status == 204 || status == 304
}

// withLength keeps the length that an answer without a body speaks of.
func withLength(resp h1.Response, head []byte) []byte {
	n, ok := resp.Fields.Get("Content-Length")
	if !ok || resp.Status == 204 {
		return head
	}
	head = append(head[:len(head)-2], "Content-Length: "...)
	head = append(head, n...)
	return append(head, "\r\n\r\n"...)
}
