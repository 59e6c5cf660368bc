package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// load runs n operations over a number of clients and returns how long each
// took and how many failed. A client that failed is made anew.
func load(n, clients int, make func() (op func() error, end func())) ([]time.Duration, int) {
	var left, failed atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			op, end := make()
			var times []time.Duration
			for left.Add(-1) >= 0 {
				start := time.Now()
				if err := op(); err != nil {
					failed.Add(1)
					end()
					op, end = make()
					continue
				}
				times = append(times, time.Since(start))
			}
			end()
			mu.Lock()
			all = append(all, times...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return all, int(failed.Load())
}

// paced runs operations at a fixed rate over a number of clients and returns
// how long each took from the moment it was due, so that one that had to wait
// for the one before it counts its waiting. Time runs once all clients are there.
func paced(rate, seconds, clients int, make func() (op func() error, end func())) ([]time.Duration, int) {
	var failed atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var wg, there sync.WaitGroup
	there.Add(clients)
	every := time.Duration(clients) * time.Second / time.Duration(rate)
	start := sync.OnceValue(func() time.Time { return time.Now().Add(100 * time.Millisecond) })
	for i := range clients {
		wg.Go(func() {
			op, end := make()
			defer func() { end() }()
			there.Done()
			there.Wait()
			start := start()
			due := start.Add(every * time.Duration(i) / time.Duration(clients))
			var times []time.Duration
			for ; due.Before(start.Add(time.Duration(seconds) * time.Second)); due = due.Add(every) {
				time.Sleep(time.Until(due))
				if err := op(); err != nil {
					failed.Add(1)
					end()
					op, end = make()
					continue
				}
				times = append(times, time.Since(due))
			}
			mu.Lock()
			all = append(all, times...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return all, int(failed.Load())
}

func broken(err error) (func() error, func()) { return func() error { return err }, func() {} }

// plainClient sends one request after the other over one connection, or over as
// many as a proxy wants that ends each of them without a word.
func plainClient(p *proxy, o *origin) (func() error, func()) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return broken(err)
	}
	br := bufio.NewReader(c)
	authority := net.JoinHostPort(p.host, o.plain)
	req := "GET http://" + authority + "/x HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
	ask := func() (*http.Response, error) {
		if _, err := io.WriteString(c, req); err != nil {
			return nil, err
		}
		return http.ReadResponse(br, nil)
	}
	used := false
	return func() error {
		r, err := ask()
		if err != nil && used {
			c.Close()
			next, derr := net.Dial("tcp", p.addr)
			if derr != nil {
				return derr
			}
			c = next
			br.Reset(c)
			r, err = ask()
		}
		if err != nil {
			return err
		}
		used = true
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil && (r.StatusCode != 200 || n != payloadSize) {
			err = fmt.Errorf("%s, %d bytes", r.Status, n)
		}
		return err
	}, func() { c.Close() }
}

// open opens one tunnel.
func open(p *proxy, port string) (net.Conn, *bufio.Reader, error) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, nil, err
	}
	authority := net.JoinHostPort(p.host, port)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	br := bufio.NewReader(c)
	r, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
	if err == nil && r.StatusCode != 200 {
		err = errors.New(r.Status)
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, br, nil
}

// tunnelClient opens a fresh tunnel for each operation: a ClientHello there, a
// payload back.
func tunnelClient(p *proxy, o *origin) (func() error, func()) {
	return func() error {
		c, br, err := open(p, o.raw)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write(o.hello); err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, br)
		if err == nil && n != payloadSize {
			err = fmt.Errorf("%d bytes", n)
		}
		return err
	}, func() {}
}

// keptTLSClient sends one request after the other through one tunnel, over TLS
// that the proxy ends.
func keptTLSClient(p *proxy, o *origin) (func() error, func()) {
	c, br, err := open(p, o.tls)
	if err != nil {
		return broken(err)
	}
	tc := tls.Client(readFirst{c, br}, &tls.Config{RootCAs: o.pool, ServerName: p.host, NextProtos: []string{"http/1.1"}})
	if err := tc.Handshake(); err != nil {
		c.Close()
		return broken(err)
	}
	answers := bufio.NewReader(tc)
	return func() error {
		fmt.Fprintf(tc, "GET /x HTTP/1.1\r\nHost: %s\r\n\r\n", net.JoinHostPort(p.host, o.tls))
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err == nil && r.StatusCode != 200 {
			err = errors.New(r.Status)
		}
		return err
	}, func() { c.Close() }
}

// tlsClient opens a fresh tunnel for each operation and does one request in it
// over TLS that the proxy ends.
func tlsClient(p *proxy, o *origin) (func() error, func()) {
	return func() error {
		c, br, err := open(p, o.tls)
		if err != nil {
			return err
		}
		defer c.Close()
		tc := tls.Client(readFirst{c, br}, &tls.Config{RootCAs: o.pool, ServerName: p.host, NextProtos: []string{"http/1.1"}})
		fmt.Fprintf(tc, "GET /x HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", net.JoinHostPort(p.host, o.tls))
		r, err := http.ReadResponse(bufio.NewReader(tc), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err == nil && r.StatusCode != 200 {
			err = errors.New(r.Status)
		}
		return err
	}, func() {}
}

type readFirst struct {
	net.Conn
	br *bufio.Reader
}

func (r readFirst) Read(p []byte) (int, error) { return r.br.Read(p) }

// bulk reads one large transfer through a tunnel and returns its size in GiB.
func bulk(p *proxy, o *origin) (float64, error) {
	c, br, err := open(p, o.bulk)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Write(o.hello); err != nil {
		return 0, err
	}
	n, err := br.WriteTo(io.Discard)
	if err == nil && n < o.bulkBytes {
		err = io.ErrUnexpectedEOF
	}
	return float64(n) / (1 << 30), err
}
