// Standin is a sidecar for tests of the substrate: it takes its configuration
// from the control socket as the real one does, listens on the run leg alone,
// answers every name with its own address, and says on standard output what it
// was asked.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(3)
	}
}

func run() error {
	if len(os.Args) != 3 || os.Args[1] != "-control" {
		return fmt.Errorf("usage: -control URL")
	}
	socket := strings.TrimPrefix(os.Args[2], "unix://")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://control" + egress.PathConfig)
	for err != nil { // a slot's sidecar has no socket yet
		time.Sleep(20 * time.Millisecond)
		resp, err = client.Get("http://control" + egress.PathConfig)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("control plane says %s: %s", resp.Status, body)
	}
	_, node, err := egress.ParseSidecarConfig(body)
	if err != nil {
		return err
	}
	listen, err := netip.ParseAddr(node.Listen)
	if err != nil {
		return err
	}
	for _, port := range []uint16{3128, 80, 443} {
		l, err := net.Listen("tcp", netip.AddrPortFrom(listen, port).String())
		if err != nil {
			return err
		}
		go serve(l)
	}
	pc, err := net.ListenPacket("udp", netip.AddrPortFrom(listen, 53).String())
	if err != nil {
		return err
	}
	go names(pc, listen)
	if _, err := client.Post("http://control"+egress.PathReady, "application/json", nil); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(c, "standin\n")
		c.Close()
	}
}

// names answers every A query with self.
func names(pc net.PacketConn, self netip.Addr) {
	buf := make([]byte, 1500)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		q := buf[:n]
		if n < 17 {
			continue
		}
		fmt.Printf("asked for %q\n", q[12:n-5])
		a := append([]byte(nil), q...)
		binary.BigEndian.PutUint16(a[2:], 0x8180)
		binary.BigEndian.PutUint16(a[6:], 1)
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		pc.WriteTo(append(a, self.AsSlice()...), from)
	}
}
