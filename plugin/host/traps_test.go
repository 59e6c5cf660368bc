package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

func waitFails(err error) func() (*driverpb.WaitTaskResponse, error) {
	return func() (*driverpb.WaitTaskResponse, error) { return nil, err }
}

// trapRow is a wrong answer, the call that meets it and the trap it is reported as.
type trapRow struct {
	name  string
	spoil func(*fake)
	call  func(*testing.T, *Plugin) error
	trap  Trap
}

// TestTrapsAreSurvivedAndReported: each wrong answer becomes a breach and an error, and the
// client goes on.
func TestTrapsAreSurvivedAndReported(t *testing.T) {
	for _, r := range slices.Concat(statsTraps(), resultTraps(), startTraps(), otherTraps()) {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(nil)
			r.spoil(f)
			p := inMemory(t, f, Options{})
			if err := r.call(t, p); err == nil {
				t.Error("no error")
			}
			if b := p.Breaches(); len(b) == 0 || b[0].Trap != r.trap {
				t.Errorf("breaches %v, want %q", b, r.trap)
			}
			if _, err := p.Fingerprint(deadline(t)); err != nil {
				t.Error("the client does not go on:", err)
			}
		})
	}
}

func callStats(t *testing.T, p *Plugin) error {
	return p.TaskStats(deadline(t), "x", time.Second, func(TaskUsage) error { return nil })
}

func callWait(t *testing.T, p *Plugin) error {
	_, err := p.WaitTask(deadline(t), "x")
	return err
}

func callStop(t *testing.T, p *Plugin) error { return p.StopTask(deadline(t), "x", 0, "") }

func callStart(t *testing.T, p *Plugin) error {
	_, err := startPlain(t, p)
	return err
}

func callInspect(t *testing.T, p *Plugin) error {
	if _, err := startPlain(t, p); err != nil {
		t.Fatal(err)
	}
	_, err := p.InspectTask(deadline(t), "a/web/1")
	return err
}

func statsTraps() []trapRow {
	sample := func(s *driverpb.TaskStats) func(*fake) {
		return func(f *fake) {
			f.stats = func() (*driverpb.TaskStatsResponse, error) { return &driverpb.TaskStatsResponse{Stats: s}, nil }
		}
	}
	return []trapRow{
		{"1 no stats", sample(nil), callStats, TrapStats},
		{"1 no usage", sample(&driverpb.TaskStats{Timestamp: timestamppb.Now()}), callStats, TrapStats},
		{"1 no time", sample(&driverpb.TaskStats{AggResourceUsage: &driverpb.TaskResourceUsage{}}), callStats, TrapStats},
		{"18 stats end with an error", func(f *fake) {
			f.stats = func() (*driverpb.TaskStatsResponse, error) { return nil, errors.New("no stats of this task") }
		}, callStats, TrapStatsError},
	}
}

func resultTraps() []trapRow {
	inspect := func(change func(*driverpb.InspectTaskResponse)) func(*fake) {
		return func(f *fake) { f.inspect = change }
	}
	return []trapRow{
		{"2 no wait result", func(f *fake) {
			f.wait = func() (*driverpb.WaitTaskResponse, error) { return &driverpb.WaitTaskResponse{}, nil }
		}, callWait, TrapWaitResult},
		{"3 no exec result", func(f *fake) {
			f.execTask = func() *driverpb.ExecTaskResponse { return &driverpb.ExecTaskResponse{} }
		}, func(t *testing.T, p *Plugin) error { _, err := p.ExecTask(deadline(t), "x", nil, 0); return err }, TrapResult},
		{"3 no task", inspect(func(r *driverpb.InspectTaskResponse) { r.Task = nil }), callInspect, TrapResult},
		{"3 no task result", inspect(func(r *driverpb.InspectTaskResponse) { r.Task.Result = nil }), callInspect, TrapResult},
		{"3 no start time", inspect(func(r *driverpb.InspectTaskResponse) { r.Task.StartedAt = nil }), callInspect, TrapResult},
		{"3 no end time", inspect(func(r *driverpb.InspectTaskResponse) { r.Task.CompletedAt = nil }), callInspect, TrapResult},
	}
}

func startTraps() []trapRow {
	edit := func(change func(*driverpb.StartTaskResponse)) func(*fake) {
		return func(f *fake) { f.start = change }
	}
	return []trapRow{
		{"7 fatal", edit(func(r *driverpb.StartTaskResponse) { r.Result = driverpb.StartTaskResponse_FATAL }), callStart, TrapFatalAsOK},
		{"12 no handle", edit(func(r *driverpb.StartTaskResponse) { r.Handle = nil }), callStart, TrapHandle},
		{"12 version 0", edit(func(r *driverpb.StartTaskResponse) { r.Handle.Version = 0 }), callStart, TrapHandle},
		{"12 no config", edit(func(r *driverpb.StartTaskResponse) { r.Handle.Config = nil }), callStart, TrapHandle},
		{"12 other config", edit(func(r *driverpb.StartTaskResponse) { r.Handle.Config = &driverpb.TaskConfig{Id: "other"} }), callStart, TrapHandle},
		{"12 not running", edit(func(r *driverpb.StartTaskResponse) { r.Handle.State = driverpb.TaskState_EXITED }), callStart, TrapHandle},
	}
}

func otherTraps() []trapRow {
	return []trapRow{
		{"14 stop of an unknown task", func(*fake) {}, callStop, TrapStopUnknown},
		{"41 unavailable", func(f *fake) {
			f.stop = func() error { return status.Error(codes.Unavailable, "engine") }
		}, callStop, TrapCode},
		{"41 canceled", func(f *fake) { f.wait = waitFails(context.Canceled) }, callWait, TrapCode},
		{"capabilities", func(f *fake) {
			f.caps = func() *driverpb.CapabilitiesResponse { return &driverpb.CapabilitiesResponse{} }
		}, func(t *testing.T, p *Plugin) error { _, err := p.Capabilities(deadline(t)); return err }, TrapCapabilities},
		{"no task schema", func(f *fake) {
			f.taskSchema = func() *driverpb.TaskConfigSchemaResponse { return &driverpb.TaskConfigSchemaResponse{} }
		}, func(t *testing.T, p *Plugin) error {
			_, err := p.EncodeTaskConfig(deadline(t), map[string]any{}, Scope{})
			return err
		}, TrapSchema},
	}
}
