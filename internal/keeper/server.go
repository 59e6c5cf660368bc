package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options configures Run.
type Options struct {
	// Socket is where clients come in; its folder is root-only.
	Socket string
	// IdleExit ends the keeper when it has had no task for so long; 0 is 10 s.
	IdleExit time.Duration
	// Log takes operational messages; nil drops them.
	Log *slog.Logger
}

// Run is the keeper process. It returns when it has been idle for long enough
// or ctx ends. Only one runs per socket; a second one waits for the first to
// end.
func Run(ctx context.Context, o Options) error {
	if o.IdleExit <= 0 {
		o.IdleExit = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	// The node's log collectors come and go, and so does the terminal.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	unlock, err := lock(o.Socket + ".lock")
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	defer unlock()
	if err := os.Remove(o.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeper: %w", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: o.Socket, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	defer l.Close()
	if err := os.Chmod(o.Socket, 0o600); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{log: o.Log, tasks: map[string]*task{}, idleSince: time.Now()}
	s.exit = func() { cancel(); l.Close() }
	go s.watchIdle(ctx, o.IdleExit)
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("keeper: accept: %w", err)
		}
		s.enter()
		go func() {
			defer s.leave()
			defer c.Close()
			s.serve(ctx, c)
		}()
	}
}

// server holds the tasks of a keeper.
type server struct {
	log  *slog.Logger
	exit func() // ends the process

	mu        sync.Mutex // guards what follows
	tasks     map[string]*task
	requests  int
	idleSince time.Time
}

func (s *server) enter() { s.mu.Lock(); s.requests++; s.mu.Unlock() }

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	if len(s.tasks) == 0 {
		s.idleSince = time.Now()
	}
}

func (s *server) watchIdle(ctx context.Context, limit time.Duration) {
	tick := time.NewTicker(min(limit, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		idle := len(s.tasks) == 0 && s.requests == 0 && time.Since(s.idleSince) >= limit
		s.mu.Unlock()
		if idle {
			s.exit()
			return
		}
	}
}

// serve answers one request.
func (s *server) serve(ctx context.Context, c *net.UnixConn) {
	if err := samePeer(c); err != nil {
		s.log.Warn("a stranger at the keeper's socket", "error", err)
		return
	}
	var r request
	files, err := receive(c, &r)
	if err != nil {
		return // the client gave up
	}
	// A wait ends with the client that waits.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.Op == "wait" {
		go func() {
			c.Read(make([]byte, 1))
			cancel()
		}()
	}
	resp, err := s.do(ctx, r, files)
	if err != nil {
		resp.Error = err.Error()
	}
	if err := send(c, resp); err != nil {
		s.log.Debug("a client left before its answer", "op", r.Op, "error", err)
	}
}

func (s *server) do(ctx context.Context, r request, files []*os.File) (response, error) {
	if r.Op != "follow" {
		closeAll(files)
	}
	if r.Op == "list" || r.Op == "quit" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Op == "quit" && len(s.tasks) == 0 {
			s.exit()
		}
		return response{IDs: slices.Sorted(maps.Keys(s.tasks))}, nil
	}
	if r.ID == "" {
		closeAll(files)
		return response{}, errors.New("no task named")
	}
	if r.Op == "follow" {
		return response{}, s.follow(r, files)
	}
	s.mu.Lock()
	t := s.tasks[r.ID]
	if r.Op == "finish" {
		delete(s.tasks, r.ID)
	}
	s.mu.Unlock()
	if t == nil {
		return response{Status: Status{State: Unknown}}, nil
	}
	switch r.Op {
	case "status":
	case "wait":
		t.wait(ctx)
	case "finish":
		return response{Status: t.finish(time.Duration(r.FlushMillis) * time.Millisecond)}, nil
	default:
		return response{}, fmt.Errorf("no such request %q", r.Op)
	}
	return response{Status: t.status()}, nil
}

func (s *server) follow(r request, files []*os.File) error {
	src, err := newSource(r, files)
	if err != nil {
		closeAll(files)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[r.ID]
	if t == nil {
		if t, err = newTask(r, s.log); err != nil {
			src.close()
			return err
		}
		s.tasks[r.ID] = t
	}
	t.follow(src)
	return nil
}

// newSource sorts the descriptors that came with a request.
func newSource(r request, files []*os.File) (*source, error) {
	src := &source{gaps: r.Gaps, early: r.Early, framed: r.Framed}
	take := func() (*os.File, error) {
		if len(files) == 0 {
			return nil, errors.New("a descriptor is missing")
		}
		f := files[0]
		files = files[1:]
		return f, nil
	}
	if r.Live {
		f, err := take()
		if err != nil {
			return nil, err
		}
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("attach connection: %w", err)
		}
		src.conn = conn
	}
	if src.length = r.EarlyLength; src.length > 0 {
		f, err := take()
		if err != nil {
			src.close()
			return nil, err
		}
		src.file = f
	}
	for i, g := range r.Gaps {
		if g.Length == 0 {
			continue
		}
		f, err := take()
		if err != nil {
			src.close()
			return nil, err
		}
		src.files[i] = f
	}
	return src, nil
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

// lock waits for the lock file and holds it. unlock removes the file, so a
// lock taken on a file that is gone by then is taken anew.
func lock(path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		for {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		mine, merr := f.Stat()
		there, terr := os.Lstat(path)
		if merr == nil && terr == nil && os.SameFile(mine, there) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close()
	}
}

// clearDead reports whether no keeper serves the socket, and removes what one
// that was killed has left there.
func clearDead(socket string) (gone bool, err error) {
	f, err := os.OpenFile(socket+".lock", os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("keeper: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keeper: lock: %w", err)
	}
	// The lock's holder has ended. One that starts now waits for it.
	for _, path := range []string{socket, socket + ".lock"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("keeper: %w", err)
		}
	}
	return true, nil
}
