package dnsd

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

var self = netip.MustParseAddr("10.213.0.2")

func query(t testing.TB, name string, typ dnsmessage.Type, class dnsmessage.Class) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	if err := b.StartQuestions(); err != nil {
		t.Fatal(err)
	}
	if err := b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: typ, Class: class}); err != nil {
		t.Fatal(err)
	}
	out, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t *testing.T, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestD4AnswersEveryNameWithItself(t *testing.T) {
	for _, name := range []string{"allowed.test.", "evil.test.", "a_b.x.", strings.Repeat("k", 60) + ".secret.evil.test.", "."} {
		m := parse(t, Answer(query(t, name, dnsmessage.TypeA, dnsmessage.ClassINET), self))
		if m.ID != 7 || !m.Response || m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 1 {
			t.Fatalf("%s: %+v", name, m)
		}
		a, ok := m.Answers[0].Body.(*dnsmessage.AResource)
		if !ok || netip.AddrFrom4(a.A) != self || m.Answers[0].Header.TTL == 0 {
			t.Errorf("%s: %+v", name, m.Answers[0])
		}
	}
}

func TestD4OtherTypesAreEmpty(t *testing.T) {
	for _, typ := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeSRV, 65} {
		m := parse(t, Answer(query(t, "allowed.test.", typ, dnsmessage.ClassINET), self))
		if m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 0 || len(m.Questions) != 1 {
			t.Errorf("type %v: %+v", typ, m)
		}
	}
}

func TestMalformedQueries(t *testing.T) {
	if Answer(nil, self) != nil || Answer([]byte("short"), self) != nil {
		t.Error("garbage is answered")
	}
	q := query(t, "a.test.", dnsmessage.TypeA, dnsmessage.ClassINET)
	reply := append([]byte(nil), q...)
	reply[2] |= 0x80
	if Answer(reply, self) != nil {
		t.Error("a reply is answered: two servers could talk for ever")
	}
	notify := append([]byte(nil), q...)
	notify[2] |= 4 << 3
	if m := parse(t, Answer(notify, self)); m.RCode != dnsmessage.RCodeNotImplemented {
		t.Errorf("another operation: %v", m.RCode)
	}
	if m := parse(t, Answer(q[:len(q)-3], self)); m.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("a cut question: %v", m.RCode)
	}
	if m := parse(t, Answer(query(t, "version.bind.", dnsmessage.TypeTXT, dnsmessage.ClassCHAOS), self)); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("class chaos: %v", m.RCode)
	}
}

// TestRealResolver asks over UDP and TCP as a client in the sandbox would.
func TestRealResolver(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: self, Logger: slog.New(slog.DiscardHandler)}
	done := make(chan error, 2)
	go func() { done <- s.ServeUDP(pc) }()
	go func() { done <- s.ServeTCP(l) }()
	for network, addr := range map[string]string{"udp": pc.LocalAddr().String(), "tcp": l.Addr().String()} {
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got, err := r.LookupNetIP(ctx, "ip", "anything.example.")
		cancel()
		if err != nil || len(got) != 1 || got[0].Unmap() != self {
			t.Errorf("%s: %v, %v", network, got, err)
		}
	}
	pc.Close()
	l.Close()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(query(f, "a.test.", dnsmessage.TypeA, dnsmessage.ClassINET))
	f.Fuzz(func(t *testing.T, b []byte) {
		out := Answer(b, self)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response {
			t.Fatalf("%x: answered %x: %v", b, out, err)
		}
		for _, a := range m.Answers {
			if r, ok := a.Body.(*dnsmessage.AResource); !ok || netip.AddrFrom4(r.A) != self {
				t.Fatalf("%x: answered %v", b, a)
			}
		}
	})
}
