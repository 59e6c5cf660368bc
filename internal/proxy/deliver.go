package proxy

import (
	"net/http"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// answer hands the origin's answer on.
func (x *exchange) answer(resp h1.Response) step {
	switch {
	case resp.Status == http.StatusSwitchingProtocols && x.out.websocket && isWebSocket(resp):
		return x.upgrade(resp)
	case resp.Status == http.StatusSwitchingProtocols:
		return x.unwanted(misbehaved(x.v.Authority, policy.DialFailed, "the origin switched protocols although nobody asked"))
	case resp.Status == http.StatusProxyAuthRequired && x.v.through:
		return x.unwanted(misbehaved(x.v.Authority, policy.UpstreamProxy, "the upstream proxy wants other credentials (407)"))
	case resp.Status == http.StatusProxyAuthRequired:
		return x.unwanted(misbehaved(x.v.Authority, policy.DialFailed, "the origin answered 407, which only a proxy may"))
	}
	coding, unread := x.screen(resp)
	if unread != nil {
		return x.unwanted(*unread)
	}
	resp = x.blot(resp)
	x.f.verdict(x.v.Ruling, resp.Status)
	keep := !x.req.Close
	err := x.relay(resp, coding, keep)
	clean := err == nil && x.settleBody()
	x.f.end(x.sentUp, x.sentDown, closeReason(x.c.live, err, clean))
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

func closeReason(l *live, err error, clean bool) string {
	switch {
	case err != nil:
		return l.reason("aborted")
	case !clean:
		return "request body not read to its end"
	}
	return "done"
}

// unwanted refuses an answer that must not reach the sandbox.
func (x *exchange) unwanted(r policy.Ruling) step {
	x.up.Close()
	x.settleBody()
	x.req.Close = true
	return x.c.refuse(x.f, x.req, r, http.StatusBadGateway)
}

// misbehaved is the ruling about an answer that no server may give.
func misbehaved(a egress.Authority, source, cause string) policy.Ruling {
	return policy.Ruling{Decision: egress.Deny, Source: source,
		Cause: a.String() + ": " + cause, Hint: "the far side misbehaves; nothing here can be changed"}
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

// relay writes the answer's head and body to the sandbox; of a body in a coding
// nobody asked for, what it decodes to.
func (x *exchange) relay(resp h1.Response, coding string, keep bool) error {
	if bodiless(x.req.Method, resp.Status) {
		return x.c.write(withLength(resp, responseHead(resp, 0, false, keep)))
	}
	body, framing := x.answerBody(resp, coding), resp.Length
	if coding != "" {
		resp.Fields, framing = without(resp.Fields, "Content-Encoding"), h1.LengthChunked
	}
	if framing < 0 { // chunks keep the connection open; HTTP/1.0 does not know them
		framing = h1.LengthChunked
		if x.req.Minor == 0 {
			framing = h1.LengthUntilClose
		}
	}
	head := responseHead(resp, framing, true, keep)
	n, err := relayBody(x.c.conn, head, body, x.up, framing)
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
