package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// exitPoll is how often a process that is no child of ours is looked at. A Nomad client does
// so once a second.
const exitPoll = 100 * time.Millisecond

// attached is a plugin process found again by its pid and address.
type attached struct {
	pid    int
	exited chan struct{} // closed when the process is gone, or stop was called
	stop   func()        // ends the watching, not the process
}

var _ runner.AttachedRunner = (*attached)(nil)

// attach looks the process up. Like a client it dials the address once: a pid alone may be
// somebody else's by now.
func attach(r Reattach) (*attached, error) {
	conn, err := net.Dial(r.Network, r.Addr)
	if err != nil {
		return nil, fmt.Errorf("reattach to plugin process %d: %w", r.Pid, err)
	}
	if err := conn.Close(); err != nil {
		return nil, fmt.Errorf("reattach to plugin process %d: %w", r.Pid, err)
	}
	stop := make(chan struct{})
	a := &attached{pid: r.Pid, exited: make(chan struct{}), stop: sync.OnceFunc(func() { close(stop) })}
	go a.watch(stop)
	return a, nil
}

func (a *attached) watch(stop <-chan struct{}) {
	defer close(a.exited)
	tick := time.NewTicker(exitPoll)
	defer tick.Stop()
	for {
		if errors.Is(syscall.Kill(a.pid, 0), syscall.ESRCH) {
			return
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func (a *attached) Wait(context.Context) error {
	<-a.exited
	return nil
}

func (a *attached) Kill(context.Context) error { return a.kill() }

func (a *attached) kill() error {
	p, err := os.FindProcess(a.pid)
	if err != nil {
		return fmt.Errorf("kill plugin: %w", err)
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill plugin: %w", err)
	}
	return nil
}

func (a *attached) ID() string { return strconv.Itoa(a.pid) }

func (a *attached) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (a *attached) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
