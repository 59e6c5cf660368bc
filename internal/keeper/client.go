package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// ErrGone: the keeper that had the task is not there any more.
var ErrGone = errors.New("the output keeper is gone")

// Client talks to the node's keeper and starts one when there is none. It also
// holds a second write end of the log FIFOs of every task it knows, so that the
// death of the keeper alone ends no log. Its methods may be called
// concurrently.
type Client struct {
	// Socket of the keeper; its folder exists.
	Socket string
	// Command starts a keeper that serves Socket.
	Command []string
	// Spool is a folder for the backlog that Resume reads; "" is that of Socket.
	Spool string
	Log   *slog.Logger

	mu     sync.Mutex
	guards map[string]*guard // by task id
}

// Task names an output and where it goes.
type Task struct {
	ID             string
	Stdout, Stderr string // log FIFOs, or other files
	Position       string // position file
}

// Sink is a runner.OutputSink that hands the task's output to the keeper.
func (c *Client) Sink(t Task) runner.OutputSink { return sink{c, t} }

type sink struct {
	c *Client
	t Task
}

func (s sink) Follow(ctx context.Context, _ string, o runner.OutputStream) error {
	if err := s.c.follow(ctx, s.t, offer{live: &o}); err != nil {
		return err
	}
	s.c.guard(s.t)
	return nil
}

// offer is what a task's output is followed from: gaps, then live output.
type offer struct {
	gaps  [streams]gap
	files []*os.File // of gaps with a length, in order

	live        *runner.OutputStream // nil when there is none
	early       *os.File             // read off the connection after live.Early
	earlyLength int64
}

// follow hands an offer to the keeper. The connection is the keeper's when it
// returns nil.
func (c *Client) follow(ctx context.Context, t Task, from offer) error {
	r := request{
		Op: "follow", ID: t.ID, Stdout: t.Stdout, Stderr: t.Stderr, Position: t.Position, Gaps: from.gaps,
	}
	var fds []int
	if from.live != nil {
		f, err := connFile(from.live.Conn)
		if err != nil {
			return err
		}
		defer f.Close()
		r.Live, r.Framed, r.Early = true, from.live.Framed, from.live.Early
		fds = append(fds, int(f.Fd()))
	}
	if from.earlyLength > 0 {
		r.EarlyLength = from.earlyLength
		fds = append(fds, int(from.early.Fd()))
	}
	for _, f := range from.files {
		fds = append(fds, int(f.Fd()))
	}
	if _, err := c.ask(ctx, true, r, fds...); err != nil {
		return err
	}
	if from.live != nil {
		// Ours is a second descriptor of the same connection.
		return from.live.Conn.Close()
	}
	return nil
}

// connFile duplicates a connection's descriptor.
func connFile(c net.Conn) (*os.File, error) {
	f, ok := c.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("keeper: a %T cannot be handed over", c)
	}
	return f.File()
}

// Status reports where a task's output stands. A keeper that is not there
// knows nothing.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	r, err := c.ask(ctx, false, request{Op: "status", ID: id})
	if errors.Is(err, ErrGone) {
		return Status{State: Unknown}, nil
	}
	return r.Status, err
}

// Wait blocks until a task's output has ended or ctx does. ErrGone when the
// keeper dies meanwhile.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	r, err := c.ask(ctx, false, request{Op: "wait", ID: id})
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	return r.Status, err
}

// Finish lets what is still on its way flow out for at most flush, closes the
// task's log files and forgets it. A task or keeper that is not there is nil.
func (c *Client) Finish(ctx context.Context, t Task, flush time.Duration) error {
	defer c.unguard(t.ID)
	_, err := c.ask(ctx, false, request{Op: "finish", ID: t.ID, FlushMillis: flush.Milliseconds()})
	if errors.Is(err, ErrGone) {
		err = nil
	}
	if rerr := os.Remove(t.Position); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// IDs lists the tasks the keeper has; none when it is not there.
func (c *Client) IDs(ctx context.Context) ([]string, error) {
	r, err := c.ask(ctx, false, request{Op: "list"})
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	return r.IDs, err
}

// Quit ends a keeper that has no task and waits until it is gone, with its
// socket; one that has is an error.
func (c *Client) Quit(ctx context.Context) error {
	r, err := c.ask(ctx, false, request{Op: "quit"})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	if len(r.IDs) > 0 {
		return fmt.Errorf("keeper: it still has %d tasks", len(r.IDs))
	}
	for {
		if gone, err := clearDead(c.Socket); gone || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("keeper: it does not end: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ask sends one request. With start a keeper is started when there is none. A
// keeper may end between the call and the answer, being idle; a request that
// may start one is therefore sent again.
func (c *Client) ask(ctx context.Context, start bool, r request, fds ...int) (response, error) {
	for try := 0; ; try++ {
		resp, err := c.askOnce(ctx, r, fds...)
		if !errors.Is(err, ErrGone) || !start || try == 3 {
			return resp, err
		}
		if err := c.start(ctx); err != nil {
			return response{}, err
		}
	}
}

func (c *Client) askOnce(ctx context.Context, r request, fds ...int) (response, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unixpacket", c.Socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return response{}, ErrGone
	}
	if err != nil {
		return response{}, fmt.Errorf("keeper: %w", err)
	}
	conn := raw.(*net.UnixConn)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := send(conn, r, fds...); err != nil {
		return response{}, errors.Join(ErrGone, err)
	}
	var resp response
	if _, err := receive(conn, &resp); err != nil {
		if ctx.Err() != nil {
			return response{}, ctx.Err()
		}
		return response{}, errors.Join(ErrGone, err)
	}
	if resp.Error != "" {
		return resp, errors.New("keeper: " + resp.Error)
	}
	return resp, nil
}

// start starts a keeper process and waits until it answers. It gets a session
// of its own and holds none of our streams: what reads them would wait for it.
func (c *Client) start(ctx context.Context) error {
	if len(c.Command) == 0 {
		return errors.New("keeper: none is running and no command starts one")
	}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	for range 200 {
		if _, err := c.askOnce(ctx, request{Op: "list"}); !errors.Is(err, ErrGone) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-died:
			return fmt.Errorf("keeper: it ended at once: %v", err)
		case <-time.After(25 * time.Millisecond):
		}
	}
	return errors.New("keeper: it does not answer")
}

func (c *Client) spoolDir() string {
	if c.Spool != "" {
		return c.Spool
	}
	return filepath.Dir(c.Socket)
}
