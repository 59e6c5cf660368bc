package wire

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// Serve runs the plugin until the client ends it; the process should exit when it returns.
// newServer gets the logger whose lines the client re-logs, and must not touch anything that
// another instance may hold: clients start a plugin up to three times while an older
// instance still manages tasks. Nothing may have been written to standard output before.
//
// Without the client's magic cookie in the environment Serve explains itself on standard
// error and exits with status 1; ask [LaunchedByClient] first.
func Serve(newServer func(log hclog.Logger) Server) {
	keepAliveOnBrokenPipe()
	log := NewLogger(os.Stderr)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         serverPlugins(newServer(log)),
		GRPCServer:      newGRPCServer,
		Logger:          log,
	})
}

// Register puts both services on a gRPC server made by [NewGRPCServer]: the way to serve
// without a process of its own.
func Register(r grpc.ServiceRegistrar, s Server) {
	basepb.RegisterBasePluginServer(r, s)
	driverpb.RegisterDriverServer(r, s)
}

// NewGRPCServer returns a gRPC server with the limits and guards a plugin serves under.
func NewGRPCServer() *grpc.Server { return newGRPCServer(nil) }

func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.ChainUnaryInterceptor(guardUnary),
		grpc.ChainStreamInterceptor(guardStream),
	)...)
}

// keepAliveOnBrokenPipe keeps a log line from ending the process. After a client crash nobody
// reads our standard error, and the Go runtime ends a process that writes to a broken pipe on
// descriptor 1 or 2 unless somebody asked for the signal. Ignoring it instead would be
// inherited by every child process.
func keepAliveOnBrokenPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
