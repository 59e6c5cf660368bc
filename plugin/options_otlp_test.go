package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOTLPOptions(t *testing.T) {
	read := func(c OTLPConfig) (*OTLPHost, string) {
		f := &faults{}
		h := otlpHost(f, &c)
		return h, f.Error()
	}
	for want, c := range map[string]OTLPConfig{
		"otlp.url: want http":           {URL: "grpc://collector.example:4317"},
		"want http(s)://":               {URL: "https://user@collector.example"},
		"would travel unencrypted":      {URL: "http://collector.example:4318", HeadersFile: "/h"},
		"otlp.headers_file = \"h\"":     {URL: "https://collector.example", HeadersFile: "h"},
		"want 2 to 16384 MiB":           {URL: "https://collector.example", BufferMB: 1},
		"otlp.ca_file = \"../ca.pem\":": {URL: "https://collector.example", CAFile: "../ca.pem"},
	} {
		if _, got := read(c); !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, got)
		}
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/logs", "http://[::1]:4318/": "http://[::1]:4318/v1/logs", "https://c.example/in/otlp": "https://c.example/in/otlp",
	} {
		h, got := read(OTLPConfig{URL: url, HeadersFile: "/h"})
		if !strings.HasSuffix(got, "for 0 reasons: ") || h.URL != want || h.BufferBytes != 64<<20 {
			t.Errorf("%s: %+v, %s", url, h, got)
		}
	}
}

func TestOTLPHeaders(t *testing.T) {
	h := OTLPHost{HeadersFile: filepath.Join(t.TempDir(), "headers")}
	write := func(text string) {
		if err := os.WriteFile(h.HeadersFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("Authorization: Bearer a-secret-value\n\nx-scope: team:a\n")
	got, err := h.Headers()
	if err != nil || got.Get("Authorization") != "Bearer a-secret-value" || got.Get("X-Scope") != "team:a" {
		t.Errorf("%v, %v", got, err)
	}
	write("a-secret-value\n")
	if _, err := h.Headers(); err == nil || strings.Contains(err.Error(), "a-secret-value") {
		t.Errorf("%v", err)
	}
}
