package checks

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthserver "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// ask probes an address and wants a status and a part of the output.
func ask(t *testing.T, name string, c jobfile.Check, address string, want Status, part string) {
	t.Helper()
	if c.Provider == "" {
		c.Provider = "consul"
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	got := (&Check{Check: c, Address: address}).probe(t.Context())
	if got.status != want || !strings.Contains(got.output, part) {
		t.Errorf("%s: %+v, want %s with %q", name, got, want, part)
	}
}

// closed is an address where nobody listens.
func closed(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ask(t, "listens", jobfile.Check{Type: "tcp"}, l.Addr().String(), Passing, "")
	ask(t, "does not", jobfile.Check{Type: "tcp"}, closed(t), Critical, "connection refused")
}

func server(tls bool) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var code int
		switch fmt.Sscanf(r.URL.Path, "/%d", &code); {
		case r.URL.Path == "/hang":
			<-r.Context().Done()
			return
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/200", http.StatusFound)
			return
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, "first\n%s %s %s %s %s\n", r.Method, r.URL, r.Host, r.Header["X-Twice"], body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

func TestHTTP(t *testing.T) {
	s := server(false)
	defer s.Close()
	address := s.Listener.Addr().String()
	for name, c := range map[string]struct {
		provider, path string
		want           Status
		part           string
	}{
		"200":                {"consul", "/200", Passing, "200 OK"},
		"299":                {"consul", "/299", Passing, "299"},
		"300 in Consul":      {"consul", "/300", Critical, "300 Multiple Choices: GET /300"},
		"300 in Nomad":       {"nomad", "/300", Passing, ""},
		"399 in Nomad":       {"nomad", "/399", Passing, ""},
		"400":                {"nomad", "/400", Critical, "400 Bad Request: GET"},
		"429 in Consul":      {"consul", "/429", Warning, ""},
		"429 in Nomad":       {"nomad", "/429", Critical, ""},
		"500":                {"consul", "/500", Critical, "500 Internal"},
		"query":              {"consul", "/404?a=b&c", Critical, "GET /404?a=b&c " + address},
		"no slash":           {"consul", "404", Critical, "GET /404 "},
		"follows a redirect": {"consul", "/moved", Passing, "200 OK"},
	} {
		ask(t, name, jobfile.Check{Type: "http", Provider: c.provider, Path: c.path}, address, c.want, c.part)
	}
	full := jobfile.Check{Type: "http", Path: "/500", Method: "POST", Body: "ping", Header: map[string][]string{"host": {"a.example"}, "x-twice": {"1", "2"}}}
	ask(t, "all of a request", full, address, Critical, "POST /500 a.example [1 2] ping")
	ask(t, "hangs", jobfile.Check{Type: "http", Path: "/hang", Timeout: 50 * time.Millisecond}, address, Critical, "deadline exceeded")
	ask(t, "nobody", jobfile.Check{Type: "http", Path: "/"}, closed(t), Critical, "connection refused")
	ask(t, "unknown protocol", jobfile.Check{Type: "http", Path: "/", Protocol: "ftp"}, address, Critical, "unsupported protocol")
	ask(t, "bad method", jobfile.Check{Type: "http", Path: "/", Method: "A B"}, address, Critical, "invalid method")
}

// TestRedirectElsewhere: who answers a check cannot have this machine ask
// somebody else, whatever that one is called.
func TestRedirectElsewhere(t *testing.T) {
	asked := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.String() }))
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/port": other.URL, "/name": "http://localhost:" + port, "/scheme": "https://" + r.Host, "/round": "/round"}[r.URL.Path]
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	for _, provider := range []string{"consul", "nomad"} {
		for path, part := range map[string]string{"/port": "not followed", "/name": "not followed", "/scheme": "not followed", "/round": "more than 10"} {
			ask(t, provider+path, jobfile.Check{Type: "http", Provider: provider, Path: path}, s.Listener.Addr().String(), Critical, part)
		}
	}
	if len(asked) > 0 {
		t.Errorf("somebody else was asked for %s", <-asked)
	}
}

func TestHTTPS(t *testing.T) {
	s := server(true)
	defer s.Close()
	address := s.Listener.Addr().String()
	check := jobfile.Check{Type: "http", Protocol: "https", Path: "/200"}
	ask(t, "unknown authority", check, address, Critical, "certificate")
	check.SkipVerify = true
	ask(t, "whoever it is", check, address, Passing, "200 OK")
	check.Protocol = "http"
	ask(t, "no TLS", check, address, Critical, "400")
}

func TestGRPC(t *testing.T) {
	for _, tls := range []bool{false, true} {
		var options []grpc.ServerOption
		if tls {
			s := server(true) // for its certificate
			defer s.Close()
			options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0])))
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		states, s := healthserver.NewServer(), grpc.NewServer(options...)
		grpc_health_v1.RegisterHealthServer(s, states)
		states.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		go s.Serve(l)
		defer s.Stop()
		address := l.Addr().String()
		check := jobfile.Check{Type: "grpc", GRPCUseTLS: tls, SkipVerify: true}
		ask(t, "all of it", check, address, Passing, "SERVING")
		check.GRPCService = "ill"
		ask(t, "ill", check, address, Critical, "NOT_SERVING")
		check.GRPCService = "none"
		ask(t, "unknown", check, address, Critical, "unknown service")
		if check.SkipVerify = false; tls {
			ask(t, "unknown authority", check, address, Critical, "certificate")
		}
	}
	ask(t, "nobody", jobfile.Check{Type: "grpc"}, closed(t), Critical, "connection refused")
}
