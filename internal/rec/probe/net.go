package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// fragmented is how large a datagram is that fits into no packet.
	fragmented     = 4000
	defaultTimeout = 2 * time.Second
	// addressWait is how long a kernel may take to make a fresh link-local
	// address usable. Trying earlier fails for that reason alone, which looks
	// like a closed door.
	addressWait = 2500 * time.Millisecond
)

// NetResult is the verdict about one target.
type NetResult struct {
	Target  string `json:"target"`
	Reached bool   `json:"reached"` // a packet got there and one came back, a refusal included
	Detail  string `json:"detail"`
}

// Net tries every target at once and prints one JSON line each, in the order
// given. It exits 0 when all were tried, whatever came of it.
func Net(args []string, stdout, stderr io.Writer) int {
	p := patience{timeout: defaultTimeout, first: make(chan struct{})}
	targets, err := p.parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "wardyn-rec: netprobe:", err)
		return 2
	}
	results := make([]NetResult, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			results[i] = t.try(p)
			results[i].Target = t.text
			if i == 0 {
				close(p.first)
			}
		})
	}
	all.Wait()
	enc := json.NewEncoder(stdout)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			fmt.Fprintln(stderr, "wardyn-rec: netprobe:", err)
			return 1
		}
	}
	return 0
}

// patience is how long a silent target is waited for.
type patience struct {
	timeout time.Duration // whatever happens
	// settle, unless zero, is how long after the first target's verdict: where
	// that one takes its time, so may an answer from any other.
	settle time.Duration
	first  chan struct{} // closed when the first target's verdict is in
}

// parse reads the options before the targets, and these.
func (p *patience) parse(args []string) ([]target, error) {
	for len(args) >= 2 && (args[0] == "-timeout" || args[0] == "-settle") {
		d, err := time.ParseDuration(args[1])
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%s %q: a duration such as 2s is needed", args[0], args[1])
		}
		if args[0] == "-settle" {
			p.settle = d
		} else {
			p.timeout = d
		}
		args = args[2:]
	}
	return parseTargets(args)
}

// start is the context of one try. A try that starts late has its time, too.
func (p patience) start() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	if p.settle > 0 {
		go func() {
			select {
			case <-p.first:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(p.settle):
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

func (t target) try(p patience) NetResult {
	if t.kind == "tcp6ll" {
		return t.tryEachInterface(p)
	}
	ctx, cancel := p.start()
	defer cancel()
	switch t.kind {
	case "tcp":
		return tryTCP(ctx, t.addr)
	case "unix":
		return tryUnix(ctx, t.path)
	case "udp":
		return tryUDP(ctx, t.addr, []byte(greeting), answered)
	case "frag":
		return tryUDP(ctx, t.addr, []byte(strings.Repeat(greeting, fragmented/len(greeting))), answered)
	default:
		id := uint16(time.Now().UnixNano())
		return tryUDP(ctx, t.addr, dnsQuery(id, t.name), func(b []byte) string { return dnsAnswer(id, b) })
	}
}

func answered(b []byte) string { return fmt.Sprintf("answered %d bytes", len(b)) }

func tryTCP(ctx context.Context, addr netip.AddrPort) NetResult {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	return NetResult{Reached: true, Detail: "connected"}
}

// tryUnix takes only a word from the other side for an answer: that there is a
// socket and nobody behind it says nothing.
func tryUnix(ctx context.Context, path string) NetResult {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return NetResult{Detail: err.Error()}
	}
	defer c.Close()
	defer endsWith(ctx, c)()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return NetResult{Detail: "connected, and then " + err.Error()}
	}
	return NetResult{Reached: true, Detail: "connected"}
}

// tryUDP sends twice, since one datagram may be lost, and describes the first
// answer that describe accepts by a non-empty text.
func tryUDP(ctx context.Context, addr netip.AddrPort, payload []byte, describe func([]byte) string) NetResult {
	var d net.Dialer
	if toEverybody(addr.Addr()) {
		d.Control = leaveByInterface
	}
	c, err := d.DialContext(ctx, "udp", addr.String())
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	defer endsWith(ctx, c)()
	for range 2 {
		if _, err := c.Write(payload); err != nil {
			return failed(err)
		}
	}
	for buf := make([]byte, 4096); ; {
		n, err := c.Read(buf)
		if err != nil {
			return failed(err)
		}
		if text := describe(buf[:n]); text != "" {
			return NetResult{Reached: true, Detail: text}
		}
	}
}

// endsWith has what waits on a connection give up when ctx ends.
func endsWith(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
}

// failed tells a refusal, which is an answer from there, from silence.
func failed(err error) NetResult {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return NetResult{Reached: true, Detail: "refused: nobody listens there, but it answered"}
	case errors.Is(err, syscall.ECONNRESET):
		return NetResult{Reached: true, Detail: "reset"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), isTimeout(err):
		return NetResult{Detail: "no answer"}
	}
	return NetResult{Detail: err.Error()}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// tryEachInterface connects over every interface but loopback; one that gets
// through decides.
func (t target) tryEachInterface(p patience) NetResult {
	time.Sleep(addressWait)
	interfaces, err := net.Interfaces()
	if err != nil {
		return failed(err)
	}
	var details []string
	for _, ifi := range interfaces {
		if ifi.Flags&net.FlagLoopback != 0 {
			continue
		}
		ctx, cancel := p.start()
		r := tryTCP(ctx, netip.AddrPortFrom(t.addr.Addr().WithZone(ifi.Name), t.addr.Port()))
		cancel()
		details = append(details, ifi.Name+": "+r.Detail)
		if r.Reached {
			return NetResult{Reached: true, Detail: details[len(details)-1]}
		}
	}
	if details == nil {
		return NetResult{Detail: "no interface but loopback"}
	}
	return NetResult{Detail: strings.Join(details, "; ")}
}
