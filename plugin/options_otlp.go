package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// OTLPConfig is the otlp block: a collector that is sent a copy of every record.
type OTLPConfig struct {
	URL         string `codec:"url"`
	HeadersFile string `codec:"headers_file"`
	CAFile      string `codec:"ca_file"`
	BufferMB    int64  `codec:"buffer_mb"`
}

func otlpSpec() *hclspec.Spec {
	return hclspec.Block("otlp", hclspec.Object(map[string]*hclspec.Spec{
		"url":          hclspec.Attr("url", hclspec.String),
		"headers_file": hclspec.Attr("headers_file", hclspec.String),
		"ca_file":      hclspec.Attr("ca_file", hclspec.String),
		"buffer_mb":    hclspec.Attr("buffer_mb", hclspec.Number),
	}))
}

// OTLPHost is the collector, as the operator's options name it.
type OTLPHost struct {
	// URL is where log records are posted to.
	URL string
	// HeadersFile holds header lines for each request; "" is none.
	HeadersFile string
	// CAFile verifies its certificate; "" is the host's own bundle.
	CAFile string
	// BufferBytes bounds what waits on disk while it takes nothing.
	BufferBytes int64
}

// Bounds of the spool.
const (
	defaultBufferMiB = 64
	maxBufferMiB     = 16384
)

// otlpHost reads the otlp block; nil without one.
func otlpHost(f *faults, c *OTLPConfig) *OTLPHost {
	if c == nil {
		return nil
	}
	h := &OTLPHost{HeadersFile: c.HeadersFile, CAFile: c.CAFile, BufferBytes: c.BufferMB << 20}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		f.add("otlp.url", nil, "want http(s)://host[:port][/path], without user, query and fragment", `for instance "http://127.0.0.1:4318"`)
	} else {
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/logs" // where the protocol has it
		}
		h.URL = u.String()
		if u.Scheme == "http" && c.HeadersFile != "" && !loopback(u.Hostname()) {
			f.add("otlp.headers_file", c.HeadersFile, "the headers would travel unencrypted", "use https, or a collector on this node at 127.0.0.1")
		}
	}
	checkHostFile(f, "otlp.headers_file", c.HeadersFile, false)
	checkHostFile(f, "otlp.ca_file", c.CAFile, false)
	switch {
	case c.BufferMB == 0:
		h.BufferBytes = defaultBufferMiB << 20
	case c.BufferMB < 2 || c.BufferMB > maxBufferMiB:
		f.add("otlp.buffer_mb", c.BufferMB, fmt.Sprintf("want 2 to %d MiB", maxBufferMiB), fmt.Sprintf("remove the line for the default, %d", defaultBufferMiB))
	}
	return h
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Headers are the headers for a request, as the file says now: a line each,
// "Name: value". Its error names no value.
func (h *OTLPHost) Headers() (http.Header, error) {
	out := http.Header{}
	if h.HeadersFile == "" {
		return out, nil
	}
	text, err := readHostSecret(h.HeadersFile)
	if err != nil {
		return nil, fmt.Errorf("plugin option otlp.headers_file: %w", err)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !headerName.MatchString(name) {
			return nil, errors.New(`plugin option otlp.headers_file: a line is not "Name: value"`)
		}
		out.Add(name, strings.TrimSpace(value))
	}
	return out, nil
}
