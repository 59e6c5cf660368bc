package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	x.c.live.upstream(up.TCP) // whose traffic the kernel counts
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
	return x.finalHead()
}

// finalHead reads the head of the final answer, and hands interim ones on: the
// 100 that a client waits for, early hints.
func (x *exchange) finalHead() (h1.Response, *failure) {
	for range h1.MaxInterim + 1 {
		resp, err := h1.ReadResponse(x.up.Src, x.req.Method)
		if err != nil {
			return h1.Response{}, x.broken(err)
		}
		if resp.Status >= 200 || resp.Status == http.StatusSwitchingProtocols {
			return resp, nil
		}
		if x.req.Minor == 1 {
			if err := x.c.write(responseHead(x.blot(resp), 0, false, true)); err != nil {
				return h1.Response{}, x.broken(err)
			}
		}
	}
	return h1.Response{}, x.broken(h1.ErrInterim)
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
	if why := x.c.live.reason(""); why != "" {
		r := wasCut(x.v, why)
		return &failure{ruling: r, status: statusOf(r.Source)}
	}
	return &failure{status: http.StatusBadGateway, ruling: policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
		Cause: fmt.Sprintf("%s: %s", x.v.Authority, cause), Hint: "policy allows this host; it did not answer properly"}}
}

// wasCut explains an exchange that was ended here, which nobody hears but the
// records.
func wasCut(v verdict, why string) policy.Ruling {
	r := policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed, Cause: v.Authority.String() + ": cut before the answer: " + why}
	if why == revoked {
		r.Source, r.Approval = policy.Revoked, v.Approval
	}
	return r
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
	return x.refuse(bad.ruling, bad.status)
}

// refuse answers in the origin's place. Where the beginning of the body was
// read ahead its rest cannot be told from the next request.
func (x *exchange) refuse(r policy.Ruling, status int) step {
	x.req.Close = x.req.Close || x.body.Peeked()
	return x.c.refuse(x.f, x.req, r, status)
}
