package probe

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
)

// greeting is what a probe sends and what a listener answers with.
const greeting = "wardyn-rec\n"

// Listen answers on every target (tcp: and udp: only) until SIGTERM or SIGINT,
// and prints "listening KIND:ADDR" once for each when all are open.
func Listen(args []string, stdout, stderr io.Writer) int {
	targets, err := parseTargets(args)
	if err != nil {
		fmt.Fprintln(stderr, "wardyn-rec: listen:", err)
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	var lines []string
	for _, t := range targets {
		addr, err := t.serve()
		if err != nil {
			fmt.Fprintf(stderr, "wardyn-rec: listen %s: %v\n", t.text, err)
			return 1
		}
		lines = append(lines, fmt.Sprintf("listening %s:%s\n", t.kind, addr))
	}
	for _, l := range lines {
		io.WriteString(stdout, l)
	}
	<-stop
	return 0
}

// serve opens the target and answers on it in the background.
func (t target) serve() (net.Addr, error) {
	switch t.kind {
	case "tcp":
		l, err := net.Listen("tcp", t.addr.String())
		if err != nil {
			return nil, err
		}
		go serveTCP(l)
		return l.Addr(), nil
	case "udp":
		c, err := net.ListenPacket("udp", t.addr.String())
		if err != nil {
			return nil, err
		}
		go serveUDP(c)
		return c.LocalAddr(), nil
	}
	return nil, fmt.Errorf("only tcp: and udp: can be listened on")
}

func serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.WriteString(c, greeting)
		}()
	}
}

func serveUDP(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		_, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		c.WriteTo([]byte(greeting), from)
	}
}
