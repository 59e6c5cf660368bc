package wire

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// scripted is a plugin whose answers the test sets, also wrong ones.
type scripted struct {
	basepb.UnimplementedBasePluginServer
	driverpb.UnimplementedDriverServer
	start       func(context.Context, *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error)
	wait        func(context.Context) (*driverpb.WaitTaskResponse, error)
	stop        func(context.Context) error
	exec        *driverpb.ExecTaskResponse
	inspect     *driverpb.InspectTaskResponse
	stats       *driverpb.TaskStatsResponse
	fingerprint *driverpb.FingerprintResponse
	event       *driverpb.DriverTaskEvent
}

func (s *scripted) StartTask(ctx context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	return s.start(ctx, r)
}

func (s *scripted) WaitTask(ctx context.Context, _ *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	return s.wait(ctx)
}

func (s *scripted) StopTask(ctx context.Context, _ *driverpb.StopTaskRequest) (*driverpb.StopTaskResponse, error) {
	return &driverpb.StopTaskResponse{}, s.stop(ctx)
}

func (s *scripted) ExecTask(context.Context, *driverpb.ExecTaskRequest) (*driverpb.ExecTaskResponse, error) {
	return s.exec, nil
}

func (s *scripted) InspectTask(context.Context, *driverpb.InspectTaskRequest) (*driverpb.InspectTaskResponse, error) {
	return s.inspect, nil
}

func (s *scripted) TaskStats(_ *driverpb.TaskStatsRequest, out grpc.ServerStreamingServer[driverpb.TaskStatsResponse]) error {
	return out.Send(s.stats)
}

func (s *scripted) Fingerprint(_ *driverpb.FingerprintRequest, out grpc.ServerStreamingServer[driverpb.FingerprintResponse]) error {
	return out.Send(s.fingerprint)
}

func (s *scripted) TaskEvents(_ *driverpb.TaskEventsRequest, out grpc.ServerStreamingServer[driverpb.DriverTaskEvent]) error {
	return out.Send(s.event)
}

// dial serves s in memory under the guards and returns the client ends.
func dial(t *testing.T, s Server) Client {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	srv := NewGRPCServer()
	Register(srv, s)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		<-done
	})
	return NewClient(conn)
}
