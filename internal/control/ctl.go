package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// CtlSocket is the name, in the run root, of the socket for people on the node.
const CtlSocket = "ctl.sock"

// Paths of the socket for people on the node.
const (
	pathApprovals = "/v1/approvals"
	pathDecide    = "/v1/decide"
)

// Order is a ruling as it travels over the socket.
type Order struct {
	Ref        string               `json:"ref"`
	To         egress.ApprovalState `json:"to"`
	Scope      Scope                `json:"scope,omitempty"`
	ForSeconds int64                `json:"for_seconds,omitempty"`
	Note       string               `json:"note,omitempty"`
}

// ServeCtl serves a socket at path by which root on this node decides about
// approvals. It is another one than the sidecars': no sandbox is anywhere near
// it. A socket that this or another process has served there is replaced.
func (s *Server) ServeCtl(path string) error {
	if len(path) > longestSocket {
		return fmt.Errorf("ctl socket: path %q has %d bytes and a socket's may have %d; choose a shorter data_dir", path, len(path), longestSocket)
	}
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return fmt.Errorf("ctl socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("ctl socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the next process replaces it
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("ctl socket: %w", err)
	}
	srv := newHTTPServer(s.ctlHandler(), s.opts.Log)
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, peerOf(c))
	}
	s.mu.Lock()
	old := s.ctl
	s.ctl = srv
	s.mu.Unlock()
	if old != nil {
		old.Close()
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Log.Error("ctl socket failed", "error", err)
		}
	}()
	return nil
}

type peerKey struct{}

// peerOf is the user at the other end, -1 when the kernel does not say.
func peerOf(c net.Conn) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}

func (s *Server) ctlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathApprovals, func(w http.ResponseWriter, _ *http.Request) { answer(w, s.AllApprovals()) })
	mux.HandleFunc("POST "+pathDecide, s.serveDecide)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if uid, _ := req.Context().Value(peerKey{}).(int); uid != os.Geteuid() {
			refuse(w, http.StatusForbidden, "only the user that runs the driver may use this socket")
			return
		}
		mux.ServeHTTP(w, req)
	})
}

func (s *Server) serveDecide(w http.ResponseWriter, req *http.Request) {
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody)).Decode(&o); err != nil {
		refuse(w, http.StatusBadRequest, "not an order: "+err.Error())
		return
	}
	a, err := s.DecideAny(o.Ref, Ruling{
		To: o.To, Scope: o.Scope, For: time.Duration(o.ForSeconds) * time.Second, By: "root on the node", Note: o.Note,
	})
	switch {
	case errors.Is(err, ErrNoApproval):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusConflict, err.Error())
	default:
		answer(w, a)
	}
}

// Ctl is the other end of ServeCtl.
type Ctl struct{ hc *http.Client }

// ctlTimeout bounds one call.
const ctlTimeout = 20 * time.Second

// NewCtl speaks to the socket at path.
func NewCtl(path string) *Ctl {
	return &Ctl{&http.Client{Timeout: ctlTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}}
}

// Approvals lists what there is on the node.
func (c *Ctl) Approvals(ctx context.Context) (out []Listed, err error) {
	return out, c.call(ctx, http.MethodGet, pathApprovals, "", &out)
}

// Decide carries an order out.
func (c *Ctl) Decide(ctx context.Context, o Order) (out Approval, err error) {
	b, err := json.Marshal(o)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodPost, pathDecide, string(b), &out)
}

func (c *Ctl) call(ctx context.Context, method, path, body string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://ctl"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return fmt.Errorf("the driver does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var bad struct{ Error string }
		json.NewDecoder(resp.Body).Decode(&bad)
		return errors.New(bad.Error)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
