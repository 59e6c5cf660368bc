package plugin

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// defaultInterval is a client's own default.
const defaultInterval = time.Second

// TaskStats sends samples of a task's use of the node, the first at once, until
// the client leaves. It goes on, silently, when the task has exited or cannot be
// measured: a client would open a stream that ended again at once, for ever.
func (p *Plugin) TaskStats(r *driverpb.TaskStatsRequest, stream driverpb.Driver_TaskStatsServer) error {
	t, ok := p.tasks.get(TaskID(r.GetTaskId()))
	if !ok {
		return wire.ErrTaskNotFound
	}
	every := r.GetCollectionInterval().AsDuration()
	if every <= 0 {
		every = defaultInterval
	}
	if b, err := p.backend(); err == nil {
		if err := p.sample(stream, b.Runner, t, every); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// sample sends until the task is over or the client has left; an error is one
// of sending.
func (p *Plugin) sample(stream driverpb.Driver_TaskStatsServer, r runner.Runner, t *task, every time.Duration) error {
	reader, ok := r.(runner.UsageReader)
	if !ok {
		return nil
	}
	_, comp := p.options()
	tick := time.NewTicker(every)
	defer tick.Stop()
	sidecar := sidecarSampler{r: r, ref: t.state.Ref}
	var before runner.Usage
	for {
		u, err := usage(stream.Context(), reader.Usage, t.state.Ref)
		if err != nil && t.parking.until() != nil {
			// A client shows the latest sample until another comes: nothing runs.
			u, err = runner.Usage{Time: time.Now()}, nil
			before = runner.Usage{Time: u.Time.Add(-every)}
		}
		if err == nil {
			s := stats(t.id, before, u, comp)
			s.ResourceUsageByPid = sidecar.sample(stream.Context(), comp)
			if err := stream.Send(&driverpb.TaskStatsResponse{Stats: s}); err != nil {
				return err
			}
			before = u
		}
		select {
		case <-tick.C:
		case <-t.done:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func usage(ctx context.Context, read func(context.Context, string) (runner.Usage, error), ref string) (runner.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := read(ctx, ref)
	if err == nil && u.Time.IsZero() {
		u.Time = time.Now()
	}
	return u, err
}

// stats is a sample as the client takes it; rates are since the sample before.
func stats(id TaskID, before, now runner.Usage, c compute) *driverpb.TaskStats {
	return &driverpb.TaskStats{
		Id:               string(id),
		Timestamp:        timestamppb.New(now.Time),
		AggResourceUsage: resourceUsage(before, now, c),
	}
}

func resourceUsage(before, now runner.Usage, c compute) *driverpb.TaskResourceUsage {
	return &driverpb.TaskResourceUsage{Cpu: cpuUsage(before, now, c), Memory: memoryUsage(now)}
}

func cpuUsage(before, now runner.Usage, c compute) *driverpb.CPUUsage {
	out := &driverpb.CPUUsage{
		ThrottledPeriods: now.ThrottledPeriods,
		ThrottledTime:    uint64(now.ThrottledTime.Nanoseconds()),
		MeasuredFields:   []driverpb.CPUUsage_Fields{driverpb.CPUUsage_THROTTLED_PERIODS, driverpb.CPUUsage_THROTTLED_TIME},
	}
	if before.Time.IsZero() {
		return out // rates need two samples
	}
	span := now.Time.Sub(before.Time)
	out.Percent = percent(now.CPUTotal-before.CPUTotal, span)
	out.UserMode = percent(now.CPUUser-before.CPUUser, span)
	out.SystemMode = percent(now.CPUSystem-before.CPUSystem, span)
	out.TotalTicks = c.ticks(out.Percent)
	out.MeasuredFields = append(out.MeasuredFields,
		driverpb.CPUUsage_PERCENT, driverpb.CPUUsage_USER_MODE, driverpb.CPUUsage_SYSTEM_MODE, driverpb.CPUUsage_TOTAL_TICKS)
	return out
}

// percent of one core; counters that went back, as after a restart, give 0.
func percent(spent, span time.Duration) float64 {
	if span <= 0 || spent <= 0 {
		return 0
	}
	return 100 * float64(spent) / float64(span)
}

func memoryUsage(u runner.Usage) *driverpb.MemoryUsage {
	out := &driverpb.MemoryUsage{
		Rss: u.MemoryRSS, Cache: u.MemoryCache, Usage: u.MemoryUsage,
		MeasuredFields: []driverpb.MemoryUsage_Fields{
			driverpb.MemoryUsage_RSS, driverpb.MemoryUsage_CACHE, driverpb.MemoryUsage_USAGE,
		},
	}
	if u.MemoryMaxKnown {
		out.MaxUsage = u.MemoryMax
		out.MeasuredFields = append(out.MeasuredFields, driverpb.MemoryUsage_MAX_USAGE)
	}
	if u.SwapKnown {
		out.Swap = u.MemorySwap
		out.MeasuredFields = append(out.MeasuredFields, driverpb.MemoryUsage_SWAP)
	}
	return out
}
