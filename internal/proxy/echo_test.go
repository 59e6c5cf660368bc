package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// bareSecret is what the proxy adds for api.test, behind its scheme.
const bareSecret = "test-secret-0123456789"

// injectedWays are the ways in which a credential goes out: a bench for each
// over an origin with this handler, a client, and the address to ask.
func injectedWays(t *testing.T, h http.HandlerFunc, each func(t *testing.T, c *http.Client, base string)) {
	plain := httptest.NewServer(h)
	t.Cleanup(plain.Close)
	t.Run("cleartext", func(t *testing.T) {
		b := inTheClear(t, &keyed{addr: strings.TrimPrefix(plain.URL, "http://")}, "api.test:80")
		each(t, b.browser(t, false), "http://api.test")
	})
	origin := tlsOrigin(t, h, "h2", "http/1.1")
	for name, h2 := range bothVersions {
		t.Run(name, func(t *testing.T) {
			b := intercepting(t, origin, allow("api.test"), true)
			each(t, b.browser(t, h2), "https://api.test")
		})
	}
}

// compressed is text in a coding.
func compressed(coding, text string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	}
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

// echoes are the shapes of answer in which an origin gives a credential back.
var echoes = map[string]struct {
	write  func(w http.ResponseWriter, r *http.Request, key string)
	status int
	body   string // what is in the answer the client gets
}{
	"interim answer": {status: 200, body: "done", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Link", "<"+key+">")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		io.WriteString(w, "done")
	}},
	"type of git": {status: 200, body: "key ********.", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Type", "application/x-git-anything")
		w.(http.Flusher).Flush()
		io.WriteString(w, "key "+key+".")
	}},
	"range": {status: 200, body: "key *****************************.", write: func(w http.ResponseWriter, r *http.Request, key string) {
		http.ServeContent(w, r, "x.txt", time.Unix(0, 0), strings.NewReader("key "+key+"."))
	}},
	"unasked part": {status: 502, body: "206", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Range", "bytes 0-9/100")
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, key[:15])
	}},
	"gzip": {status: 200, body: "key ********.", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		b := compressed("gzip", "key "+key+".")
		w.Header().Set("Content-Encoding", "GZIP")
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b)
	}},
	"deflate": {status: 200, body: "key ********.", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Encoding", "deflate")
		w.Write(compressed("zlib", "key "+key+"."))
	}},
	"deflate without its head": {status: 200, body: "key ********.", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Encoding", "deflate")
		w.Write(compressed("flate", "key "+key+"."))
	}},
	"gzip of nothing": {status: 200, body: "", write: func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", "0")
	}},
	"gzip twice": {status: 502, body: "gzip, gzip", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Encoding", "gzip, gzip")
		w.Write(compressed("gzip", string(compressed("gzip", key))))
	}},
	"unknown coding": {status: 502, body: `\"br\"`, write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, key)
	}},
	"itself as coding": {status: 502, body: "content coding", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Content-Encoding", key)
		io.WriteString(w, "done")
	}},
	"itself as coding of messages": {status: 502, body: "messages", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Grpc-Encoding", strings.ToUpper(key))
		io.WriteString(w, "done")
	}},
	"compressed messages": {status: 502, body: "messages", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.Header().Set("Grpc-Encoding", "gzip")
		w.Write(compressed("gzip", key))
	}},
	"name of a field": {status: 200, body: "done", write: func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header()["X-"+strings.ToUpper(bareSecret)] = []string{"1"}
		w.Header().Set("Trailer", bareSecret+"-Last")
		io.WriteString(w, "done")
		w.Header().Set(bareSecret+"-Last", "1")
	}},
	"base64 of more": {status: 200, body: "ey", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.(http.Flusher).Flush()
		for before := range 3 {
			io.WriteString(w, base64.StdEncoding.EncodeToString([]byte(`{"a`+strings.Repeat("b", before)+`":"`+key+`"}`))+"\n")
		}
	}},
	"hexadecimal": {status: 200, body: "********", write: func(w http.ResponseWriter, _ *http.Request, key string) {
		w.(http.Flusher).Flush()
		io.WriteString(w, hex.EncodeToString([]byte(key)))
	}},
}

// TestS86NoShapeOfAnswerHandsACredentialBack: over every way in, whatever the
// sandbox asks for and the origin answers.
func TestS86NoShapeOfAnswerHandsACredentialBack(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if !strings.Contains(key, bareSecret) {
			t.Errorf("origin saw %v", r.Header)
		}
		for _, name := range []string{"Range", "If-Range", "A-Im", "Accept-Charset", "Grpc-Accept-Encoding"} {
			if r.Header.Get(name) != "" {
				t.Errorf("origin was asked for %s", name)
			}
		}
		echoes[r.URL.Query().Get("shape")].write(w, r, key)
	}
	injectedWays(t, handler, func(t *testing.T, c *http.Client, base string) {
		for shape, want := range echoes {
			status, got := everything(t, c, base+"/?shape="+strings.ReplaceAll(shape, " ", "+"))
			if status != want.status || !strings.Contains(got, want.body) {
				t.Errorf("%s: %d, want %d with %q: %s", shape, status, want.status, want.body, got)
			}
			if found := decodedSecret(got); found != "" {
				t.Errorf("%s: the answer holds the credential as %s: %s", shape, found, got)
			}
		}
	})
}

// everything asks for an address and returns all that came, interim answers,
// names of fields and trailers with it.
func everything(t *testing.T, c *http.Client, address string) (int, string) {
	t.Helper()
	var got strings.Builder
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		fmt.Fprintln(&got, code, h)
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Range": {"bytes=0-20"}, "If-Range": {`"x"`}, "A-Im": {"gzip"}, "Accept-Charset": {"utf-16"}, "Grpc-Accept-Encoding": {"gzip"}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s: %v", address, err)
	}
	fmt.Fprintln(&got, resp.Status, resp.Header, resp.Trailer)
	got.Write(body)
	return resp.StatusCode, got.String()
}

// decodedSecret says how the credential stands in a text, "" for not at all.
func decodedSecret(text string) string {
	if strings.Contains(strings.ToLower(text), bareSecret) {
		return "it is"
	}
	if strings.Contains(text, hex.EncodeToString([]byte(bareSecret))) {
		return "hexadecimal"
	}
	for line := range strings.Lines(text) {
		for cut := range 4 {
			if b, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line)[min(cut, len(strings.TrimSpace(line))):]); bytes.Contains(b, []byte(bareSecret)) {
				return "base64"
			}
		}
	}
	return ""
}

// TestS86DecodedStreamIsNotBuffered: each event of a compressed stream is here
// before the origin writes the next.
func TestS86DecodedStreamIsNotBuffered(t *testing.T) {
	next := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		for i := range 3 {
			fmt.Fprintf(z, "data: %d %s\n\n", i, r.Header.Get("X-Api-Key"))
			z.Flush()
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}
	injectedWays(t, handler, func(t *testing.T, c *http.Client, base string) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", base+"/", nil)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for i := range 3 {
			want := fmt.Sprintf("data: %d ********\n\n", i)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
				t.Fatalf("event %d is %q, %v", i, got, err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// TestS86BrokenCoding: what does not decode ends the answer, and never looks whole.
func TestS86BrokenCoding(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		b := compressed("gzip", strings.Repeat("text ", 100000))
		w.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/cut":
			w.Write(b[:len(b)/2])
		case "/more":
			w.Write(append(b, "and more"...))
		case "/other":
			io.WriteString(w, "this is no gzip at all")
		}
	}
	injectedWays(t, handler, func(t *testing.T, c *http.Client, base string) {
		for _, path := range []string{"/cut", "/more", "/other"} {
			resp, err := c.Get(base + path)
			if err != nil {
				continue
			}
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s looks whole: %s", path, resp.Status)
			}
			resp.Body.Close()
		}
	})
}
