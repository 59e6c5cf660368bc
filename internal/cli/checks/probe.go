package checks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// mostOutput is how much of an answer is read, in bytes.
const mostOutput = 4 << 10

// slack is what a script that was cut off is given to be reported so.
const slack = 10 * time.Second

// probe asks once. It returns when ctx ends, and at the check's timeout.
func (c *Check) probe(ctx context.Context) result {
	limit := c.Timeout
	if c.Type == "script" {
		limit += slack // its own end is the driver's to make
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch c.Type {
	case "script":
		return c.script(ctx)
	case "http":
		return c.http(ctx)
	case "grpc":
		return c.grpc(ctx)
	default:
		return c.tcp(ctx)
	}
}

func failed(err error) result { return result{Critical, err.Error()} }

// script judges the exit code of a command.
func (c *Check) script(ctx context.Context) result {
	code, output, err := c.Exec(ctx, append([]string{c.Command}, c.Args...), c.Timeout)
	switch {
	case errors.Is(err, ErrTaskEnded):
		return result{}
	case err != nil:
		return failed(err)
	case code == 0:
		return result{Passing, output}
	case code == 1:
		return result{Warning, output}
	}
	if strings.TrimSpace(output) == "" {
		output = fmt.Sprintf("exit code %d", code)
	}
	return result{Critical, output}
}

// tcp is content when it is let in.
func (c *Check) tcp(ctx context.Context) result {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return failed(err)
	}
	conn.Close()
	return result{status: Passing}
}

// tls is what a check that encrypts believes.
func (c *Check) tls() *tls.Config {
	return &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.SkipVerify}
}

// http judges the status code of an answer.
func (c *Check) http(ctx context.Context) result {
	path, err := url.Parse(c.Path)
	if err != nil {
		return failed(err)
	}
	base := url.URL{Scheme: cmp.Or(c.Protocol, "http"), Host: c.Address}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(c.Method, http.MethodGet), base.ResolveReference(path).String(), strings.NewReader(c.Body))
	if err != nil {
		return failed(err)
	}
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Host = req.Header.Get("Host")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.tls()}, CheckRedirect: stay}
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, mostOutput)) // what there is of it is told
	output := resp.Status
	if line := lastLine(string(body)); line != "" && resp.StatusCode != http.StatusOK {
		output += ": " + line
	}
	return result{c.verdict(resp.StatusCode), output}
}

// mostRedirects is how many in a row are followed.
const mostRedirects = 10

// stay follows redirects at the address of the check alone: a sandbox that
// answers could have this machine ask anywhere else, past its egress policy.
func stay(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	switch {
	case to.URL.Scheme != from.Scheme || to.URL.Host != from.Host:
		return fmt.Errorf("the redirect to %s is not followed: it leaves the address of the check", to.URL)
	case len(via) >= mostRedirects:
		return fmt.Errorf("more than %d redirects", mostRedirects)
	}
	return nil
}

// verdict is what a status code means, which depends on who asks.
func (c *Check) verdict(code int) Status {
	switch {
	case c.Provider == "nomad" && code < 400, code >= 200 && code < 300:
		return Passing
	case c.Provider == "consul" && code == http.StatusTooManyRequests:
		return Warning
	}
	return Critical
}

// grpc asks the standard health service.
func (c *Check) grpc(ctx context.Context) result {
	creds := insecure.NewCredentials()
	if c.GRPCUseTLS {
		creds = credentials.NewTLS(c.tls())
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.GRPCService})
	if err != nil {
		return result{Critical, status.Convert(err).Message()}
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return result{Critical, answer.Status.String()}
	}
	return result{Passing, answer.Status.String()}
}
