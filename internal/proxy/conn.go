package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Times of the sandbox's side.
const (
	headTimeout   = 30 * time.Second
	idleTimeout   = 90 * time.Second
	lingerTimeout = time.Second
	lingerBytes   = 256 << 10
)

// front is one connection from the sandbox, or the inside of one tunnel.
type front struct {
	s      *Server
	conn   net.Conn
	src    *h1.Source
	entry  entry
	inside egress.Authority // of a tunnel
	live   *live
	// first is the connection that was dialled when the tunnel opened.
	first *tunnelOrigin
}

// serve handles one request after the other until the connection ends. It
// reports whether the connection was handed on and must not be closed.
func (c *front) serve(ctx context.Context) (handedOn bool) {
	for ctx.Err() == nil {
		if !c.await() {
			return false
		}
		req, err := h1.ReadRequest(c.src)
		if err != nil {
			c.malformed(req, err)
			return false
		}
		c.conn.SetReadDeadline(time.Time{})
		next := c.handle(ctx, req)
		if next != proceed {
			return next == handover
		}
	}
	return false
}

// step says what becomes of a connection after a request.
type step int

const (
	proceed  step = iota // the next request may come
	hangup               // it ends here
	handover             // it is somebody else's now
)

// await waits for the first byte of a request and then gives the head its time.
func (c *front) await() bool {
	if len(c.src.Buffered()) == 0 {
		c.src.Release()
		c.live.idle(true)
		c.conn.SetReadDeadline(time.Now().Add(idleTimeout))
		if err := c.src.Fill(h1.MaxRequestHead); err != nil {
			return false
		}
		c.live.idle(false)
	}
	c.conn.SetReadDeadline(time.Now().Add(headTimeout))
	return true
}

func (c *front) handle(ctx context.Context, req h1.Request) step {
	switch {
	case req.Method == "CONNECT" && c.entry == explicit:
		return c.connect(ctx, req)
	case req.Method == "CONNECT":
		f := c.s.newFlow(ask{host: c.inside.Host.String(), port: int(c.inside.Port), method: req.Method, scheme: c.entry.scheme()})
		return c.refuseWith(f, req, policy.BadRequest, "there is no CONNECT inside a tunnel or on a transparent port", 405)
	case c.entry == explicit && req.Target[0] == '/':
		return c.local(ctx, req)
	}
	d, bad := locate(c.entry, c.inside, req)
	f := c.s.newFlow(ask{host: d.host, port: d.port, method: req.Method, path: d.path(), scheme: c.entry.scheme(), cleartext: c.entry != tunnelTLS})
	if bad != nil {
		if c.inside.Port != 0 && d.host == "" {
			f.ask.host, f.ask.port = c.inside.Host.String(), int(c.inside.Port)
		}
		return c.refuseWith(f, req, bad.source, bad.cause, statusOf(bad.source))
	}
	return c.forward(ctx, f, req, d)
}

// malformed answers a head that could not be read. The connection is of no use
// after that. What merely ended or timed out before a whole head is no request.
func (c *front) malformed(req h1.Request, err error) {
	var he *h1.Error
	timeout := isTimeout(err)
	if !errors.As(err, &he) && !timeout {
		return
	}
	status, cause := 408, "the head of the request did not come in time"
	if he != nil {
		status, cause = he.Status, he.Reason
	}
	f := c.s.newFlow(bestGuess(c.entry, c.inside, req))
	r := policy.Ruling{Decision: egress.Deny, Source: policy.BadRequest, Cause: cause, Hint: "the request itself is malformed; no setting changes that"}
	f.verdict(r, status)
	c.write(refusalAnswer(f, r, status, false))
	c.linger()
}

// bestGuess names what a malformed request was for, as far as can be said.
func bestGuess(e entry, inside egress.Authority, req h1.Request) ask {
	a := ask{method: req.Method, port: -1, scheme: e.scheme()}
	switch {
	case inside.Port != 0:
		a.host, a.port = inside.Host.String(), int(inside.Port)
	case req.Method == "CONNECT":
		a.host, a.port = splitPort(req.Target, 0)
	default:
		if _, rest, ok := cutScheme(req.Target); ok {
			d, _ := locateAbsolute(e, inside, h1.Request{}, rest)
			a.host, a.port, a.path = d.host, d.port, d.path()
		}
	}
	return a
}

// refuseWith answers a request that never reached the verdict function.
func (c *front) refuseWith(f *flow, req h1.Request, source, cause string, status int) step {
	r := policy.Ruling{Decision: egress.Deny, Source: source, Cause: cause, Hint: hintOf(source)}
	return c.refuse(f, req, r, status)
}

func hintOf(source string) string {
	switch source {
	case policy.BadRequest, policy.BadHost:
		return "the request itself is malformed; no setting changes that"
	case policy.AuthorityMismatch:
		return "send requests for another host through their own connection"
	}
	return ""
}

// refuse records and answers a refusal. A well-framed request leaves the
// connection usable: its body is read off, within bounds.
func (c *front) refuse(f *flow, req h1.Request, r policy.Ruling, status int) step {
	keep := !req.Close && !req.Expect100 && req.Length <= lingerBytes
	if req.Length == h1.LengthChunked && f.ask.method == "CONNECT" {
		keep = false
	}
	f.verdict(r, status)
	if c.write(refusalAnswer(f, r, status, keep)) != nil {
		return hangup
	}
	if keep && c.drain(req.Length) {
		return proceed
	}
	c.linger()
	return hangup
}

// drain reads a refused request's body off the connection.
func (c *front) drain(length int64) bool {
	if length == 0 {
		return true
	}
	c.conn.SetReadDeadline(time.Now().Add(headTimeout))
	body := h1.NewBody(c.src, length)
	_, err := io.CopyN(io.Discard, body, lingerBytes+1)
	return errors.Is(err, io.EOF) && body.Done()
}

// write sends bytes to the sandbox. The janitor cuts a client that takes none.
func (c *front) write(b []byte) error {
	_, err := c.conn.Write(b)
	return err
}

// linger lets the answer arrive although the client may still be sending:
// closing at once would reset the connection under it.
func (c *front) linger() {
	if hc, ok := c.conn.(halfCloser); ok {
		hc.CloseWrite()
	}
	c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	io.CopyN(io.Discard, c.conn, lingerBytes)
}

type halfCloser interface{ CloseWrite() error }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
