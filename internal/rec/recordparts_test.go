package rec

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTestTerminal runs a command on a terminal of that size and returns what it
// showed and its exit code. use types, once seen has found what it looks for.
func onTestTerminal(t *testing.T, cmd *exec.Cmd, cols, rows int, use func(term *os.File, seen func(string))) (string, int) {
	t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	resize(t, master, cols, rows)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var screen shown
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(&screen, master) // ends with an error when the last writer is gone
	}()
	if use != nil {
		use(master, func(s string) {
			eventually(t, fmt.Sprintf("%q on the screen", s), func() bool { return strings.Contains(screen.String(), s) })
		})
	}
	got := code(t, cmd.Wait())
	<-read
	return screen.String(), got
}

func resize(t *testing.T, term *os.File, cols, rows int) {
	t.Helper()
	raw, err := term.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shown is what came out of a terminal.
type shown struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shown) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// receiver takes recordings as the control plane does.
type receiver struct {
	url string

	mu    sync.Mutex
	taken map[string][]byte // by session
	types []string
	lost  int // answers still to be lost
	no    int // the status of every answer; 0 takes
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{taken: map[string][]byte{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL + "/wardyn/v1/recordings/r"
	return r
}

func (r *receiver) lose(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = n
}

func (r *receiver) refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.no = status
}

func (r *receiver) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	for _, b := range r.taken {
		out.Write(b)
	}
	return out.String()
}

func (r *receiver) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.types
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types = append(r.types, req.Header.Get("Content-Type"))
	_, params, merr := mime.ParseMediaType(req.Header.Get("Content-Type"))
	var offset int
	if _, serr := fmt.Sscan(params["offset"], &offset); err != nil || merr != nil || serr != nil || req.Method != "PUT" || req.URL.Path != "/wardyn/v1/recordings/r" {
		w.WriteHeader(400)
		return
	}
	had := r.taken[params["session"]]
	switch {
	case r.no != 0:
		w.WriteHeader(r.no)
	case offset > len(had):
		w.WriteHeader(409)
		fmt.Fprintf(w, `{"error":"gap","offset":%d}`, len(had))
	default:
		r.taken[params["session"]] = append(had[:offset], body...)
		if r.lost > 0 {
			r.lost--
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"offset":%d}`, offset+len(body))
	}
}
