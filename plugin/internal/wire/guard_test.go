package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// answerRow is one answer of a plugin and what a client is told instead, empty when it passes.
type answerRow struct {
	name string
	call func(*testing.T) error
	says string
}

// TestTraps1To3And7And12IncompleteAnswers: an answer that would end a client, or lose a task,
// arrives as an error.
func TestTraps1To3And7And12IncompleteAnswers(t *testing.T) {
	for _, r := range slices.Concat(statsAnswers(), resultAnswers(), startAnswers()) {
		t.Run(r.name, func(t *testing.T) {
			err := r.call(t)
			switch {
			case r.says == "" && err != nil:
				t.Errorf("a whole answer was refused: %v", err)
			case r.says != "" && (status.Code(err) != codes.Internal || !strings.Contains(err.Error(), r.says)):
				t.Errorf("got %v, want an internal error about %s", err, r.says)
			}
		})
	}
}

func statsAnswers() []answerRow {
	answer := func(s *driverpb.TaskStats) func(*testing.T) error {
		return func(t *testing.T) error {
			c := dial(t, &scripted{stats: &driverpb.TaskStatsResponse{Stats: s}})
			stream, err := c.Driver.TaskStats(t.Context(), &driverpb.TaskStatsRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}
	}
	now, usage := timestamppb.Now(), &driverpb.TaskResourceUsage{}
	return []answerRow{
		{"1 stats", answer(nil), "stats"},
		{"1 usage", answer(&driverpb.TaskStats{Timestamp: now}), "agg_resource_usage"},
		{"1 time", answer(&driverpb.TaskStats{AggResourceUsage: usage}), "timestamp"},
		{"1 whole", answer(&driverpb.TaskStats{Timestamp: now, AggResourceUsage: usage}), ""},
	}
}

func resultAnswers() []answerRow {
	wait := func(t *testing.T) error {
		c := dial(t, &scripted{wait: func(context.Context) (*driverpb.WaitTaskResponse, error) { return &driverpb.WaitTaskResponse{}, nil }})
		_, err := c.Driver.WaitTask(t.Context(), &driverpb.WaitTaskRequest{})
		return err
	}
	exec := func(t *testing.T) error {
		_, err := dial(t, &scripted{exec: &driverpb.ExecTaskResponse{}}).Driver.ExecTask(t.Context(), &driverpb.ExecTaskRequest{})
		return err
	}
	inspect := func(task *driverpb.TaskStatus) func(*testing.T) error {
		return func(t *testing.T) error {
			c := dial(t, &scripted{inspect: &driverpb.InspectTaskResponse{Task: task}})
			_, err := c.Driver.InspectTask(t.Context(), &driverpb.InspectTaskRequest{})
			return err
		}
	}
	now, result := timestamppb.Now(), &driverpb.ExitResult{}
	return []answerRow{
		{"2 wait", wait, "result"},
		{"3 exec", exec, "result"},
		{"3 inspect task", inspect(nil), "task"},
		{"3 inspect result", inspect(&driverpb.TaskStatus{StartedAt: now, CompletedAt: now}), "task.result"},
		{"3 inspect time", inspect(&driverpb.TaskStatus{StartedAt: now, Result: result}), "completed_at"},
		{"3 inspect whole", inspect(&driverpb.TaskStatus{StartedAt: now, CompletedAt: now, Result: result}), ""},
	}
}

func startAnswers() []answerRow {
	answer := func(r *driverpb.StartTaskResponse) func(*testing.T) error {
		return func(t *testing.T) error {
			c := dial(t, &scripted{start: func(context.Context, *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
				return r, nil
			}})
			_, err := c.Driver.StartTask(t.Context(), &driverpb.StartTaskRequest{})
			return err
		}
	}
	handle := func(h *driverpb.TaskHandle) func(*testing.T) error {
		return answer(&driverpb.StartTaskResponse{Handle: h})
	}
	whole := &driverpb.TaskHandle{Version: 1, Config: &driverpb.TaskConfig{}}
	return []answerRow{
		{"7 fatal", answer(&driverpb.StartTaskResponse{Result: driverpb.StartTaskResponse_FATAL, Handle: whole}), "failure"},
		{"12 no handle", handle(nil), "handle"},
		{"12 no config", handle(&driverpb.TaskHandle{Version: 1}), "handle.config"},
		{"12 version 0", handle(&driverpb.TaskHandle{Config: &driverpb.TaskConfig{}}), "handle.version"},
		{"12 whole", handle(whole), ""},
	}
}

// TestTrap45BadText: bytes that are no UTF-8 arrive replaced, in every kind of field.
func TestTrap45BadText(t *testing.T) {
	const bad, good = "a\xffb", "a\uFFFDb"
	ctx := t.Context()
	c := dial(t, &scripted{
		fingerprint: &driverpb.FingerprintResponse{
			HealthDescription: bad,
			Attributes: map[string]*structspb.Attribute{
				"driver." + bad: {Value: &structspb.Attribute_StringVal{StringVal: bad}, Unit: bad},
			},
		},
		event: &driverpb.DriverTaskEvent{
			AllocId: "a", TaskName: "t", Timestamp: timestamppb.Now(), Message: bad, Annotations: map[string]string{bad: bad},
		},
		start: func(_ context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
			return &driverpb.StartTaskResponse{Handle: &driverpb.TaskHandle{Version: 1, Config: &driverpb.TaskConfig{
				Dns: &driverpb.DNSConfig{Servers: []string{bad, "ok"}}, DeviceEnv: map[string]string{"K": bad},
			}}}, nil
		},
		stop: func(context.Context) error { return errors.New(bad) },
	})
	fs, err := c.Driver.Fingerprint(ctx, &driverpb.FingerprintRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fp, err := fs.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if attr := fp.GetAttributes()["driver."+good]; fp.GetHealthDescription() != good || attr.GetStringVal() != good || attr.GetUnit() != good {
		t.Errorf("fingerprint: %v", fp)
	}
	es, err := c.Driver.TaskEvents(ctx, &driverpb.TaskEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := es.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if ev.GetMessage() != good || ev.GetAnnotations()[good] != good {
		t.Errorf("event: %v", ev)
	}
	started, err := c.Driver.StartTask(ctx, &driverpb.StartTaskRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg := started.GetHandle().GetConfig(); cfg.GetDns().GetServers()[0] != good || cfg.GetDeviceEnv()["K"] != good {
		t.Errorf("handle: %v", cfg)
	}
	if _, err := c.Driver.StopTask(ctx, &driverpb.StopTaskRequest{}); status.Convert(err).Message() != good {
		t.Errorf("error text: %v", err)
	}
}

// TestTrap41CodesWithASecondMeaning: a living plugin never says Unavailable or Canceled, but
// for a WaitTask that its own shutdown cancels.
func TestTrap41CodesWithASecondMeaning(t *testing.T) {
	rows := []struct {
		err  error
		stop codes.Code
		wait codes.Code
	}{
		{status.Error(codes.Unavailable, "engine"), codes.Unknown, codes.Unknown},
		{fmt.Errorf("pull: %w", status.Error(codes.Unavailable, "engine")), codes.Unknown, codes.Unknown},
		{fmt.Errorf("ask: %w", context.Canceled), codes.Unknown, codes.Canceled},
		{status.Error(codes.Canceled, "lifetime"), codes.Unknown, codes.Canceled},
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), codes.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.NotFound, "x"), codes.NotFound, codes.NotFound},
		{errors.New("plain"), codes.Unknown, codes.Unknown},
	}
	for _, r := range rows {
		t.Run(r.err.Error(), func(t *testing.T) {
			c := dial(t, &scripted{
				stop: func(context.Context) error { return r.err },
				wait: func(context.Context) (*driverpb.WaitTaskResponse, error) { return nil, r.err },
			})
			if _, err := c.Driver.StopTask(t.Context(), &driverpb.StopTaskRequest{}); status.Code(err) != r.stop {
				t.Errorf("StopTask: %v, want code %v", err, r.stop)
			}
			if _, err := c.Driver.WaitTask(t.Context(), &driverpb.WaitTaskRequest{}); status.Code(err) != r.wait {
				t.Errorf("WaitTask: %v, want code %v", err, r.wait)
			}
		})
	}
}

// TestTraps8And9Recoverable: the detail is the first one, is found again, and the code is not
// one with a second meaning.
func TestTraps8And9Recoverable(t *testing.T) {
	for _, want := range []bool{true, false} {
		c := dial(t, &scripted{start: func(context.Context, *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
			return nil, Recoverable(errors.New("registry\xff down"), want)
		}})
		_, err := c.Driver.StartTask(t.Context(), &driverpb.StartTaskRequest{})
		st := status.Convert(err)
		if st.Code() != codes.FailedPrecondition || st.Message() != "registry\uFFFD down" {
			t.Errorf("got %v", err)
		}
		url := st.Proto().GetDetails()[0].GetTypeUrl()
		if url != "type.googleapis.com/hashicorp.nomad.plugins.shared.structs.RecoverableError" {
			t.Errorf("detail is a %s", url)
		}
		if IsRecoverable(err) != want {
			t.Errorf("IsRecoverable(%v) = %v", err, !want)
		}
	}
	if Recoverable(nil, true) != nil || IsRecoverable(errors.New("plain")) || IsRecoverable(nil) {
		t.Error("no error and no detail mean not recoverable")
	}
}

// TestTrap44LargeRequest: an environment beyond gRPC's own 4 MiB arrives.
func TestTrap44LargeRequest(t *testing.T) {
	var got int
	c := dial(t, &scripted{start: func(_ context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
		got = len(r.GetTask().GetEnv()["BIG"])
		return nil, errors.New("seen")
	}})
	big := strings.Repeat("x", 5<<20)
	_, err := c.Driver.StartTask(t.Context(), &driverpb.StartTaskRequest{
		Task: &driverpb.TaskConfig{Env: map[string]string{"BIG": big}},
	})
	if got != len(big) {
		t.Errorf("%d bytes arrived: %v", got, err)
	}
}

// TestCallerWhoLeft: the caller's own cancellation passes as what it is.
func TestCallerWhoLeft(t *testing.T) {
	seen := make(chan error, 1)
	entered := make(chan struct{})
	c := dial(t, &scripted{stop: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		seen <- answerError(ctx, driverpb.Driver_StopTask_FullMethodName, ctx.Err())
		return ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { <-entered; cancel() }()
	if _, err := c.Driver.StopTask(ctx, &driverpb.StopTaskRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("caller saw %v", err)
	}
	if err := <-seen; status.Code(err) != codes.Canceled {
		t.Errorf("handler's error became %v", err)
	}
}
