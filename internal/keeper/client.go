package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// ErrGone: the keeper that had the task is not there any more.
var ErrGone = errors.New("the output keeper is gone")

// Client talks to the node's keeper, and to the holder beside it, and starts
// them when they are not there. Its methods may be called concurrently.
type Client struct {
	// Socket of the keeper; its folder exists.
	Socket string
	// Command starts a keeper that serves Socket.
	Command []string
	// Holder starts a holder that serves HolderSocket(Socket).
	Holder []string
	// Spool is a folder for the backlog that Resume reads; "" is that of Socket.
	Spool string
	Log   *slog.Logger

	starting  turn            // one start at a time, of either
	order     sync.Mutex      // one request to the holder at a time: no hold overtakes a release
	mu        sync.Mutex      // guards what follows
	held      map[string]Task // by id
	stopWatch context.CancelFunc
}

// Task names an output and where it goes.
type Task struct {
	ID             string
	Stdout, Stderr string // log FIFOs, or other files
	Position       string // position file
	// Record is the recording to make of it; nil is none.
	Record *cast.Options
	// Secrets, when not nil, takes the place of Record's: it is asked for what is
	// not to be shown each time that the output is handed to a keeper, which may
	// be long after the Task was made.
	Secrets func() []string
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
	s.c.hold(ctx, s.t)
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
		Op: "follow", ID: t.ID, Stdout: t.Stdout, Stderr: t.Stderr, Position: t.Position, Gaps: from.gaps, Record: t.Recording(),
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
	if _, err := c.keeper().ask(ctx, true, r, fds...); err != nil {
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
	r, err := c.keeper().ask(ctx, false, request{Op: "status", ID: id})
	if errors.Is(err, ErrGone) {
		return Status{State: Unknown}, nil
	}
	return r.Status, err
}

// Wait blocks until a task's output has ended or ctx does. ErrGone when the
// keeper dies meanwhile.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	r, err := c.keeper().ask(ctx, false, request{Op: "wait", ID: id})
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	return r.Status, err
}

// Finish lets what is still on its way flow out for at most flush, closes the
// task's log files and forgets it. A task or keeper that is not there is nil.
func (c *Client) Finish(ctx context.Context, t Task, flush time.Duration) error {
	_, err := c.keeper().ask(ctx, false, request{Op: "finish", ID: t.ID, FlushMillis: flush.Milliseconds()})
	if errors.Is(err, ErrGone) {
		err = nil
	}
	// Whether that worked or not: what is held longer ends no log.
	err = errors.Join(err, c.release(ctx, t.ID))
	if rerr := os.Remove(t.Position); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// IDs lists the tasks that the keeper or the holder has; none when they are not
// there.
func (c *Client) IDs(ctx context.Context) ([]string, error) {
	var ids []string
	var errs []error
	for _, d := range []daemon{c.keeper(), c.holder()} {
		r, err := d.ask(ctx, false, request{Op: "list"})
		if err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
		ids = append(ids, r.IDs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(errs...)
}

// Quit ends a keeper and a holder that have no task and waits until they are
// gone, with their sockets; one that has is an error.
func (c *Client) Quit(ctx context.Context) error {
	return errors.Join(c.keeper().quit(ctx), c.holder().quit(ctx))
}

func (c *Client) keeper() daemon { return daemon{"keeper", c.Socket, c.Command, &c.starting} }

func (c *Client) spoolDir() string {
	if c.Spool != "" {
		return c.Spool
	}
	return filepath.Dir(c.Socket)
}
