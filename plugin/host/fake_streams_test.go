package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

func (f *fake) Fingerprint(_ *driverpb.FingerprintRequest, out grpc.ServerStreamingServer[driverpb.FingerprintResponse]) error {
	f.record("Fingerprint", nil)
	if f.fingerprint != nil {
		return f.fingerprint(out)
	}
	err := out.Send(&driverpb.FingerprintResponse{
		Health: driverpb.FingerprintResponse_HEALTHY, HealthDescription: "Healthy",
		Attributes: map[string]*structspb.Attribute{
			"driver.fake.version": {Value: &structspb.Attribute_StringVal{StringVal: "0.1"}},
		},
	})
	if err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (f *fake) TaskEvents(_ *driverpb.TaskEventsRequest, out grpc.ServerStreamingServer[driverpb.DriverTaskEvent]) error {
	f.record("TaskEvents", nil)
	if f.events != nil {
		return f.events(out)
	}
	<-out.Context().Done()
	return nil
}

func (f *fake) SignalTask(_ context.Context, r *driverpb.SignalTaskRequest) (*driverpb.SignalTaskResponse, error) {
	f.record("SignalTask", r.GetSignal())
	if !strings.HasPrefix(r.GetSignal(), "SIG") {
		f.log.Error("signal refused", "signal", r.GetSignal())
		return nil, status.Error(codes.InvalidArgument, "unknown signal "+r.GetSignal())
	}
	return &driverpb.SignalTaskResponse{}, nil
}

func (f *fake) TaskStats(r *driverpb.TaskStatsRequest, out grpc.ServerStreamingServer[driverpb.TaskStatsResponse]) error {
	if f.stats != nil {
		answer, err := f.stats()
		if err != nil {
			return err
		}
		return out.Send(answer)
	}
	err := out.Send(&driverpb.TaskStatsResponse{Stats: &driverpb.TaskStats{
		Id: r.GetTaskId(), Timestamp: timestamppb.Now(),
		AggResourceUsage: &driverpb.TaskResourceUsage{
			Cpu:    &driverpb.CPUUsage{Percent: 12.5, MeasuredFields: []driverpb.CPUUsage_Fields{driverpb.CPUUsage_PERCENT}},
			Memory: &driverpb.MemoryUsage{Usage: 42, MeasuredFields: []driverpb.MemoryUsage_Fields{driverpb.MemoryUsage_USAGE}},
		},
		ResourceUsageByPid: map[string]*driverpb.TaskResourceUsage{"7": {}},
	}})
	if err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (f *fake) ExecTask(_ context.Context, r *driverpb.ExecTaskRequest) (*driverpb.ExecTaskResponse, error) {
	if f.execTask != nil {
		return f.execTask(), nil
	}
	return &driverpb.ExecTaskResponse{
		Stdout: []byte(strings.Join(r.GetCommand(), " ")), Stderr: []byte("e"), Result: &driverpb.ExitResult{ExitCode: 3},
	}, nil
}

func (f *fake) ExecTaskStreaming(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
	if f.execStream != nil {
		return f.execStream(s)
	}
	return echo(s)
}

// echo answers each input chunk on standard output, each size on standard error, and exits
// with 43 at the end of the input.
func echo(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if first.GetSetup() == nil {
		return errors.New("the first message must be the setup")
	}
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		answer := &driverpb.ExecTaskStreamingResponse{}
		switch {
		case proto.Equal(m, &driverpb.ExecTaskStreamingRequest{}):
			answer.Stderr = &driverpb.ExecTaskStreamingIOOperation{Data: []byte("beat ")}
		case m.GetTtySize() != nil:
			answer.Stderr = &driverpb.ExecTaskStreamingIOOperation{
				Data: fmt.Appendf(nil, "%dx%d ", m.GetTtySize().GetHeight(), m.GetTtySize().GetWidth()),
			}
		case m.GetStdin().GetClose():
			return errors.Join(
				s.Send(&driverpb.ExecTaskStreamingResponse{Stdout: &driverpb.ExecTaskStreamingIOOperation{Close: true}}),
				s.Send(&driverpb.ExecTaskStreamingResponse{Exited: true, Result: &driverpb.ExitResult{ExitCode: 43}}))
		default:
			answer.Stdout = &driverpb.ExecTaskStreamingIOOperation{Data: m.GetStdin().GetData()}
		}
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

func (f *fake) CreateNetwork(_ context.Context, r *driverpb.CreateNetworkRequest) (*driverpb.CreateNetworkResponse, error) {
	return &driverpb.CreateNetworkResponse{Created: true, IsolationSpec: &driverpb.NetworkIsolationSpec{
		Mode: driverpb.NetworkIsolationSpec_GROUP, Path: "/var/run/netns/" + r.GetAllocId(),
		HostsConfig: &driverpb.HostsConfig{Hostname: r.GetHostname()},
	}}, nil
}

func (f *fake) DestroyNetwork(_ context.Context, r *driverpb.DestroyNetworkRequest) (*driverpb.DestroyNetworkResponse, error) {
	f.record("DestroyNetwork", r.GetIsolationSpec().GetPath())
	return &driverpb.DestroyNetworkResponse{}, nil
}
