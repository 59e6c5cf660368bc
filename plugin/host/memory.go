package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

// memoryLauncher serves the plugin inside this process, over a pipe in memory. With
// wire.NewGRPCServer it has the limits and guards of a real plugin process.
type memoryLauncher struct {
	newServer func(hclog.Logger) wire.Server
	newGRPC   func() *grpc.Server
	log       hclog.Logger
}

const memoryPipeBytes = 1 << 20

func (l *memoryLauncher) start() (*instance, error) {
	server := l.newServer(l.log)
	srv := l.newGRPC()
	wire.Register(srv, server)
	pipe := bufconn.Listen(memoryPipeBytes)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		if err := srv.Serve(pipe); err != nil {
			l.log.Error("serve plugin in memory", "error", err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		srv.Stop()
		return nil, fmt.Errorf("connect to plugin in memory: %w", err)
	}
	stop := sync.OnceValue(func() error {
		srv.Stop()
		<-exited
		err := conn.Close()
		if c, ok := server.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return err
	})
	return &instance{
		Client: wire.NewClient(conn),
		exited: exited,
		kill: func() {
			if err := stop(); err != nil {
				l.log.Warn("stop plugin in memory", "error", err)
			}
		},
		crash:  stop,
		detach: func() { _ = stop() }, // it cannot outlive its client
	}, nil
}

func (l *memoryLauncher) reattach(Reattach) (*instance, error) {
	return nil, errors.New("a plugin in memory cannot be found again")
}
