package host

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

// instance is one running plugin: a process, or a server in memory.
type instance struct {
	wire.Client
	reattach Reattach        // zero in memory
	exited   <-chan struct{} // closed when the plugin is gone
	kill     func()          // gracefully, then by force; returns when it is gone
	crash    func() error    // by force, without a word
	detach   func()          // lets go of it as an agent that crashes would
}

// launcher starts plugins or finds running ones again.
type launcher interface {
	start() (*instance, error)
	reattach(Reattach) (*instance, error)
}

// processLauncher runs the plugin's executable through go-plugin.
type processLauncher struct {
	opts     Options
	log      hclog.Logger
	breaches *breachLog
}

func (l *processLauncher) start() (*instance, error) {
	var proc *process
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		Plugins:          wire.ClientPlugins(),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           l.log,
		SkipHostEnv:      true, // newProcess decides about the environment
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			proc = newProcess(l.opts, cmd.Env, l.breaches)
			return proc, os.Remove(socketDir) // made for runners that need one
		},
	})
	conn, ends, err := connect(client)
	if err != nil {
		if proc != nil && proc.pid() != 0 {
			client.Kill()
		}
		return nil, fmt.Errorf("launch plugin %s: %w", l.opts.Path, err)
	}
	addr := client.ReattachConfig().Addr
	go func() {
		<-proc.exited
		removeSocket(addr) // a killed plugin leaves it behind
	}()
	return &instance{
		Client:   ends,
		reattach: Reattach{Network: addr.Network(), Addr: addr.String(), Pid: proc.pid()},
		exited:   proc.exited,
		kill:     client.Kill,
		crash:    func() error { return proc.kill() },
		detach: func() {
			_ = conn.Close() // nobody is left to be told of an error
			proc.closePipes()
		},
	}, nil
}

func (l *processLauncher) reattach(r Reattach) (*instance, error) {
	proc, err := attach(r)
	if err != nil {
		return nil, err
	}
	addr, err := resolve(r)
	if err != nil {
		proc.stop()
		return nil, err
	}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		Plugins:          wire.ClientPlugins(),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           l.log,
		Reattach: &goplugin.ReattachConfig{
			Protocol: goplugin.ProtocolGRPC, Addr: addr, Pid: r.Pid,
			ReattachFunc: func() (runner.AttachedRunner, error) { return proc, nil },
		},
	})
	conn, ends, err := connect(client)
	if err != nil {
		proc.stop()
		return nil, fmt.Errorf("reattach to plugin process %d: %w", r.Pid, err)
	}
	return &instance{
		Client:   ends,
		reattach: r,
		exited:   proc.exited,
		kill: func() {
			client.Kill()
			removeSocket(addr)
		},
		crash: func() error { return proc.kill() },
		detach: func() {
			_ = conn.Close() // nobody is left to be told of an error
			proc.stop()
		},
	}, nil
}

// connect starts or finds the process of client and dispenses the driver.
func connect(client *goplugin.Client) (*grpc.ClientConn, wire.Client, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, wire.Client{}, err
	}
	raw, err := protocol.Dispense(wire.PluginDriver)
	if err != nil {
		return nil, wire.Client{}, err
	}
	ends, isWire := raw.(wire.Client)
	grpcClient, isGRPC := protocol.(*goplugin.GRPCClient)
	if !isWire || !isGRPC {
		return nil, wire.Client{}, fmt.Errorf("plugin speaks %T, not gRPC", protocol)
	}
	return grpcClient.Conn, ends, nil
}

func resolve(r Reattach) (net.Addr, error) {
	switch {
	case strings.HasPrefix(r.Network, "unix"):
		return net.ResolveUnixAddr(r.Network, r.Addr)
	case strings.HasPrefix(r.Network, "tcp"):
		return net.ResolveTCPAddr(r.Network, r.Addr)
	default:
		return nil, fmt.Errorf("reattach: network %q is neither unix nor tcp", r.Network)
	}
}

func removeSocket(addr net.Addr) {
	if addr.Network() == "unix" {
		_ = os.Remove(addr.String()) // gone already when the plugin ended by itself
	}
}
