package deliver

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// quick is a delivery that does not wait long between its tries.
func quick(t *testing.T, to string) *Delivery {
	t.Helper()
	d, err := New(to, "token")
	if err != nil {
		t.Fatal(err)
	}
	d.every, d.lastly = 5*time.Millisecond, testenv.Patience
	return d
}

// brief is a quick one that does not try for long, either.
func brief(t *testing.T, to string) *Delivery {
	d := quick(t, to)
	d.lastly = 50 * time.Millisecond
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
	if err := brief(t, "http://127.0.0.1:1/x").Follow(path, done); err == nil {
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

// A receiver that has lost a piece says where to go on.
func TestW16ReceiverBehind(t *testing.T) {
	var got bytes.Buffer
	var forgotten bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, params, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
		if params["offset"] != fmt.Sprint(got.Len()) {
			w.WriteHeader(409)
			fmt.Fprintf(w, `{"error":"gap","offset":%d}`, got.Len())
			return
		}
		if got.Write(body); !forgotten {
			forgotten = true
			got.Reset()
		}
	}))
	defer s.Close()
	path, done, result := filepath.Join(t.TempDir(), "r.cast"), make(chan struct{}), make(chan error, 1)
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := quick(t, s.URL+"/x")
	if err := d.all(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { result <- d.Follow(path, done) }()
	close(done)
	if err := <-result; err != nil || got.String() != "one\ntwo\n" {
		t.Errorf("%v; %q", err, got.String())
	}
}

// One that wants the same again and again is given up.
func TestW10ReceiverThatForgets(t *testing.T) {
	var asked int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if asked++; asked%2 == 0 {
			w.WriteHeader(409)
			fmt.Fprint(w, `{"offset":0}`)
		}
	}))
	defer s.Close()
	path, done := filepath.Join(t.TempDir(), "r.cast"), make(chan struct{})
	if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789abcde\n"), 2*most/16), 0o600); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := quick(t, s.URL+"/x").Follow(path, done); err == nil || asked > 3*mostBack {
		t.Errorf("%v after %d requests", err, asked)
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
