package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/elazarl/goproxy"
	"github.com/stripe/smokescreen/cmd"
	"github.com/stripe/smokescreen/pkg/smokescreen"
)

// peerMain runs one of the peers that are libraries, as a process of its own.
func peerMain(name, addr string) bool {
	switch name {
	case "minimal":
		log.Fatal(http.ListenAndServe(addr, minimal()))
	case "goproxy", "goproxy-intercept":
		log.Fatal(http.ListenAndServe(addr, goproxyServer(name == "goproxy-intercept")))
	case "smokescreen":
		smokescreenMain(addr)
	default:
		return false
	}
	return true
}

// minimal is the least that a proxy can do: forward, or copy between sockets.
func minimal() http.Handler {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			splice(w, r.URL.Host)
			return
		}
		r.RequestURI = ""
		resp, err := tr.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	})
}

func splice(w http.ResponseWriter, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{})
	go func() { defer close(done); io.Copy(up, c); up.(*net.TCPConn).CloseWrite() }()
	io.Copy(c, up)
	c.(*net.TCPConn).CloseWrite()
	<-done
}

func goproxyServer(intercept bool) http.Handler {
	p := goproxy.NewProxyHttpServer()
	p.Logger = log.New(io.Discard, "", 0)
	if !intercept {
		return p
	}
	ca, err := tls.LoadX509KeyPair(os.Getenv("BENCH_CA"), os.Getenv("BENCH_CA_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	p.CertStore = &certStore{}
	p.Tr = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 256}
	action := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
	p.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		return action, host
	}))
	return p
}

// certStore keeps goproxy's leaves, as its documentation recommends.
type certStore struct{ m sync.Map }

func (s *certStore) Fetch(host string, gen func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	if c, ok := s.m.Load(host); ok {
		return c.(*tls.Certificate), nil
	}
	c, err := gen()
	if err == nil {
		s.m.Store(host, c)
	}
	return c, err
}

func smokescreenMain(addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		log.Fatal(err)
	}
	conf, err := cmd.NewConfiguration([]string{"smokescreen", "--listen-ip", host, "--listen-port", port, "--allow-range", os.Getenv("BENCH_ORIGIN") + "/32"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	conf.Log.SetOutput(io.Discard)
	smokescreen.StartWithConfig(conf, nil)
	fmt.Fprintln(os.Stderr, "smokescreen ended")
}
