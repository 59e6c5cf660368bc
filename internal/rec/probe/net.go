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
	timeout := defaultTimeout
	if len(args) >= 2 && args[0] == "-timeout" {
		d, err := time.ParseDuration(args[1])
		if err != nil || d <= 0 {
			fmt.Fprintf(stderr, "wardyn-rec: netprobe: -timeout %q: a duration such as 2s is needed\n", args[1])
			return 2
		}
		timeout, args = d, args[2:]
	}
	targets, err := parseTargets(args)
	if err != nil {
		fmt.Fprintln(stderr, "wardyn-rec: netprobe:", err)
		return 2
	}
	results := make([]NetResult, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			results[i] = t.try(timeout)
			results[i].Target = t.text
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

func (t target) try(timeout time.Duration) NetResult {
	if t.kind == "tcp6ll" {
		return t.tryEachInterface(timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	switch t.kind {
	case "tcp":
		return tryTCP(ctx, t.addr)
	case "unix":
		return tryUnix(ctx, t.path)
	case "udp":
		return tryUDP(ctx, t.addr, []byte(greeting), func(b []byte) string { return fmt.Sprintf("answered %d bytes", len(b)) })
	default:
		id := uint16(time.Now().UnixNano())
		return tryUDP(ctx, t.addr, dnsQuery(id, t.name), func(b []byte) string { return dnsAnswer(id, b) })
	}
}

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
	end, _ := ctx.Deadline()
	c.SetDeadline(end)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return NetResult{Detail: "connected, and then " + err.Error()}
	}
	return NetResult{Reached: true, Detail: "connected"}
}

// tryUDP sends twice, since one datagram may be lost, and describes the first
// answer that describe accepts by a non-empty text.
func tryUDP(ctx context.Context, addr netip.AddrPort, payload []byte, describe func([]byte) string) NetResult {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", addr.String())
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	c.SetDeadline(end)
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

// failed tells a refusal, which is an answer from there, from silence.
func failed(err error) NetResult {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return NetResult{Reached: true, Detail: "refused: nobody listens there, but it answered"}
	case errors.Is(err, syscall.ECONNRESET):
		return NetResult{Reached: true, Detail: "reset"}
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
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
func (t target) tryEachInterface(timeout time.Duration) NetResult {
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
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
