// Command client makes requests from inside a sandbox, as a program that knows
// nothing of where it runs:
//
//	client URL [header=value]...   one request; prints status and body
//	client hold HOST:PORT          a tunnel through the proxy; prints how it ends
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if args[0] == "hold" {
		return hold(args[1])
	}
	req, err := http.NewRequest("GET", args[0], nil)
	if err != nil {
		return err
	}
	for _, h := range args[1:] {
		k, v, _ := strings.Cut(h, "=")
		req.Header.Set(k, v)
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	fmt.Printf("%d %s\n", resp.StatusCode, b)
	return err
}

// hold opens a tunnel, and says when it is open and when it is cut.
func hold(target string) error {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Println("tunnel:", strings.TrimSpace(line))
	_, err = in.ReadString('\n')
	// A plain request in the tunnel, of which the answer never ends.
	fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: %s\r\n\r\n", target)
	io.Copy(os.Stdout, in)
	fmt.Println("tunnel: over")
	return err
}
