package deliver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// quick is a delivery that does not try for long.
func quick(t *testing.T, to string) *Delivery {
	t.Helper()
	d, err := New(to, "token")
	if err != nil {
		t.Fatal(err)
	}
	d.every, d.lastly = 5*time.Millisecond, 50*time.Millisecond
	return d
}

// W10: where nobody takes it, delivery is tried for a while and given up.
func TestW10NobodyListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.cast")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	if err := quick(t, "http://127.0.0.1:1/x").Follow(path, done); err == nil {
		t.Error("nothing is said of it")
	}
}

// W16: a receiver that comes back, as a control plane after its restart, gets
// all of a file that grows, in whole lines; half a line is left out.
func TestW16ReceiverAway(t *testing.T) {
	var got bytes.Buffer
	var asked int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if asked++; asked%2 == 1 {
			w.WriteHeader(503)
			return
		}
		if req.Header.Get("Authorization") != "Bearer token" || len(body) == 0 || body[len(body)-1] != '\n' {
			w.WriteHeader(400)
			return
		}
		got.Write(body)
	}))
	defer s.Close()
	path, done, result := filepath.Join(t.TempDir(), "r.cast"), make(chan struct{}), make(chan error, 1)
	go func() { result <- quick(t, s.URL+"/x").Follow(path, done) }()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&want, "line %d\n", i)
		fmt.Fprintf(f, "line %d\n", i)
		time.Sleep(time.Millisecond)
	}
	fmt.Fprint(f, "half a li")
	close(done)
	if err := <-result; err != nil || got.String() != want.String() {
		t.Errorf("%v; %d bytes of %d", err, got.Len(), want.Len())
	}
}

func TestLineTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.cast")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), most+1), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	if err := quick(t, "http://127.0.0.1:1/x").Follow(path, done); err == nil {
		t.Error("delivered")
	}
}
