package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options configures a keeper and a holder.
type Options struct {
	// Socket is where clients come in; its folder is root-only.
	Socket string
	// IdleExit ends the process when it has had no task for so long; 0 is 10 s.
	IdleExit time.Duration
	// Log takes operational messages; nil drops them.
	Log *slog.Logger
}

// acceptPause spaces attempts to accept that fail.
const acceptPause = 100 * time.Millisecond

// endpoint is a process that answers requests on a socket, one at a time on
// this node. It ends when it has had nothing to do for long enough.
type endpoint struct {
	Options
	// do answers one request; the descriptors are its own.
	do func(ctx context.Context, r request, files []*os.File) (response, error)
	// busy reports whether the process is needed although nobody asks.
	busy func() bool
	exit func() // ends the process

	mu        sync.Mutex // guards what follows
	requests  int
	idleSince time.Time
}

func newEndpoint(o Options) *endpoint {
	if o.IdleExit <= 0 {
		o.IdleExit = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &endpoint{Options: o, idleSince: time.Now()}
}

// serve returns when the process has been idle for long enough, was told to
// end or ctx ends. A second one on the same socket waits for the first to end.
func (e *endpoint) serve(ctx context.Context) error {
	// The node's log collectors come and go, and so does the terminal.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	unlock, err := lock(e.Socket + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	l, err := listen(e.Socket)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.exit = func() { cancel(); l.Close() }
	go e.watchIdle(ctx)
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		if err != nil { // a lack of descriptors is waited out: outputs hang on this process
			e.Log.Warn("a client cannot be answered now", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		e.enter()
		go func() {
			defer e.leave()
			defer c.Close()
			e.answer(ctx, c)
		}()
	}
}

// listen needs the socket's lock: what is there already is a dead process's.
func listen(socket string) (*net.UnixListener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (e *endpoint) enter() { e.mu.Lock(); e.requests++; e.mu.Unlock() }

func (e *endpoint) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests--
	e.idleSince = time.Now()
}

func (e *endpoint) watchIdle(ctx context.Context) {
	tick := time.NewTicker(min(e.IdleExit, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		busy := e.busy()
		e.mu.Lock()
		if busy {
			e.idleSince = time.Now()
		}
		idle := e.requests == 0 && time.Since(e.idleSince) >= e.IdleExit
		e.mu.Unlock()
		if idle {
			e.exit()
			return
		}
	}
}

// answer answers one request.
func (e *endpoint) answer(ctx context.Context, c *net.UnixConn) {
	if err := samePeer(c); err != nil {
		e.Log.Warn("a stranger at the socket", "error", err)
		return
	}
	var r request
	files, err := receive(c, &r)
	if err != nil {
		return // the client gave up
	}
	// What waits ends with the client that waits.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.Op == "wait" || r.Op == "watch" {
		go func() {
			c.Read(make([]byte, 1))
			cancel()
		}()
	}
	resp, err := e.do(ctx, r, files)
	if err != nil {
		resp.Error = err.Error()
	}
	if err := send(c, resp); err != nil {
		e.Log.Debug("a client left before its answer", "op", r.Op, "error", err)
	}
}

// samePeer refuses a client of another user.
func samePeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d", cred.Uid)
	}
	return nil
}
