package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestE101MessagesGoOn: a message that ends in no line break is here before the
// origin writes the next, masked, also when it ends as a secret begins.
func TestE101MessagesGoOn(t *testing.T) {
	const messages = 3
	next := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		for i := range messages {
			fmt.Fprintf(w, "%d %s;%s", i, r.Header.Get("X-Api-Key"), bareSecret[:i])
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}
	injectedWays(t, handler, func(t *testing.T, c *http.Client, base string) {
		for _, read := range []int{messages, 1} { // to the end, and a client that leaves
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", base+"/", nil)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			for i := range read {
				want := fmt.Sprintf("%d ********;%s", i, bareSecret[:i])
				got := make([]byte, len(want))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
					t.Fatalf("message %d is %q, %v", i, got, err)
				}
				if read == messages {
					next <- struct{}{}
				}
			}
			if read == messages {
				if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
					t.Errorf("%q, %v", rest, err)
				}
			}
			resp.Body.Close()
		}
	})
}

// TestE101HaltingEcho: an origin that pauses in the midst of the credential shows
// half of what nobody knows of it.
func TestE101HaltingEcho(t *testing.T) {
	const shown = "test-secret-01234" // its words are nothing to hide
	next := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		for _, sign := range r.Header.Get("X-Api-Key") {
			io.WriteString(w, string(sign))
			w.(http.Flusher).Flush()
			select {
			case <-next: // the client has it
			case <-time.After(4 * pause): // it waits
			}
		}
	}
	injectedWays(t, handler, func(t *testing.T, c *http.Client, base string) {
		resp, err := c.Get(base + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got := ""
		for one := make([]byte, 1); ; {
			n, err := resp.Body.Read(one)
			got += string(one[:n])
			select {
			case next <- struct{}{}:
			default:
			}
			if err != nil {
				break
			}
		}
		if got != "Bearer "+shown+"********" {
			t.Errorf("the client got %q", got)
		}
	})
}
