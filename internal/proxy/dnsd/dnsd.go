// Package dnsd is the sandbox's name server: it answers every well-formed name
// with the sidecar's own address and asks nobody, so that names are no way out.
// Where a connection really goes is decided from the request itself.
package dnsd

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// ttl is how long a client may keep an answer, in seconds.
const ttl = 60

const (
	maxUDP     = 1232 // larger queries are not read whole
	maxTCP     = 64   // connections at once
	tcpTimeout = 10 * time.Second
	tcpQueries = 100 // per connection
)

// Server answers on listeners that its caller opened.
type Server struct {
	Addr   netip.Addr // what every name resolves to; an IPv4 address
	Logger *slog.Logger
}

// Answer builds the reply to one query. It returns nil for what deserves none:
// too short, or a reply itself.
func Answer(query []byte, self netip.Addr) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	if h.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return build(reply, nil, netip.Addr{})
	}
	q, err := p.Question()
	if err != nil {
		reply.RCode = dnsmessage.RCodeFormatError
		return build(reply, nil, netip.Addr{})
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		reply.RCode = dnsmessage.RCodeFormatError
		return build(reply, nil, netip.Addr{})
	}
	if q.Class != dnsmessage.ClassINET && q.Class != dnsmessage.ClassANY {
		reply.RCode = dnsmessage.RCodeRefused
		return build(reply, &q, netip.Addr{})
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeALL {
		self = netip.Addr{} // an empty answer: no such record, no error
	}
	return build(reply, &q, self)
}

func build(h dnsmessage.Header, q *dnsmessage.Question, a netip.Addr) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), h)
	b.EnableCompression()
	if q != nil {
		if b.StartQuestions() != nil || b.Question(*q) != nil {
			return nil
		}
		if a.Is4() {
			rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
			if b.StartAnswers() != nil || b.AResource(rh, dnsmessage.AResource{A: a.As4()}) != nil {
				return nil
			}
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

// ServeUDP answers datagrams until the socket is closed.
func (s *Server) ServeUDP(pc net.PacketConn) error {
	buf := make([]byte, maxUDP)
	for {
		n, from, err := pc.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			s.Logger.Warn("dns read failed", "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if out := Answer(buf[:n], s.Addr); out != nil {
			pc.WriteTo(out, from) // a lost answer is asked for again
		}
	}
}

// ServeTCP answers connections until the listener is closed.
func (s *Server) ServeTCP(l net.Listener) error {
	slots := make(chan struct{}, maxTCP)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			s.Logger.Warn("dns accept failed", "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case slots <- struct{}{}:
			wg.Add(1)
			go func() {
				defer func() { conn.Close(); <-slots; wg.Done() }()
				s.serveConn(conn)
			}()
		default:
			conn.Close()
		}
	}
}

func (s *Server) serveConn(conn net.Conn) {
	for range tcpQueries {
		conn.SetDeadline(time.Now().Add(tcpTimeout))
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		out := Answer(query, s.Addr)
		if out == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}
