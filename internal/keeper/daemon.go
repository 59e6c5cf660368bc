package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// daemon is a keeper or a holder as its clients see it: where it answers and
// what starts it.
type daemon struct {
	name    string // in errors
	socket  string
	command []string
	// starting is held by who starts one: another that finds none at that moment
	// would start a second, which waits for as long as the first lives.
	starting *turn
}

// ask sends one request. With start the process is started when there is none. It
// may end between the call and the answer, being idle; a request that
// may start one is therefore sent again.
func (d daemon) ask(ctx context.Context, start bool, r request, fds ...int) (response, error) {
	for try := 0; ; try++ {
		resp, err := d.askOnce(ctx, r, fds...)
		if !errors.Is(err, ErrGone) || !start || try == 3 {
			return resp, err
		}
		if err := d.start(ctx); err != nil {
			return response{}, err
		}
	}
}

func (d daemon) askOnce(ctx context.Context, r request, fds ...int) (response, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unixpacket", d.socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return response{}, ErrGone
	}
	if err != nil {
		return response{}, fmt.Errorf("%s: %w", d.name, err)
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
		return resp, errors.New(d.name + ": " + resp.Error)
	}
	return resp, nil
}

// startWait bounds how long a process that was started may take to answer: the
// node may be busy with whatever else is starting on it.
const startWait = 30 * time.Second

// start starts the process and waits until it answers. It gets a session
// of its own and holds none of our streams: what reads them would wait for it.
func (d daemon) start(ctx context.Context) error {
	if len(d.command) == 0 {
		return fmt.Errorf("%s: none is running and no command starts one", d.name)
	}
	if err := d.starting.take(ctx); err != nil {
		return fmt.Errorf("%s: wait for another start of one: %w", d.name, err)
	}
	defer d.starting.give()
	if _, err := d.askOnce(ctx, request{Op: "list"}); !errors.Is(err, ErrGone) {
		return err // somebody else has started it
	}
	cmd := exec.Command(d.command[0], d.command[1:]...)
	cmd.Args[0] = "wardyn-" + d.name // so that what is aimed at the plugin misses it
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	for end := time.Now().Add(startWait); time.Now().Before(end); {
		if _, err := d.askOnce(ctx, request{Op: "list"}); !errors.Is(err, ErrGone) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-died:
			return fmt.Errorf("%s: it ended at once: %v", d.name, err)
		case <-time.After(25 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: it does not answer", d.name)
}

// quit ends a process that has no task and waits until it is gone, with its
// socket; one that has is an error.
func (d daemon) quit(ctx context.Context) error {
	r, err := d.ask(ctx, false, request{Op: "quit"})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	if len(r.IDs) > 0 {
		return fmt.Errorf("%s: it still has %d tasks", d.name, len(r.IDs))
	}
	for {
		if gone, err := clearDead(d.socket); gone || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: it does not end: %w", d.name, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
