package host

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// TaskStats calls sample for each sample until ctx ends, the plugin ends the stream, or sample
// returns an error. A real client opens it again after every end.
func (p *Plugin) TaskStats(ctx context.Context, id string, interval time.Duration, sample func(TaskUsage) error) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	return p.followStats(ctx, inst, id, interval, sample)
}

func (p *Plugin) followStats(ctx context.Context, inst *instance, id string, interval time.Duration, sample func(TaskUsage) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := inst.Driver.TaskStats(ctx, &driverpb.TaskStatsRequest{
		TaskId: id, CollectionInterval: durationpb.New(interval),
	})
	for err == nil {
		var answer *driverpb.TaskStatsResponse
		if answer, err = stream.Recv(); err != nil {
			break
		}
		if bad := p.breaches.check("TaskStats", answer); bad != nil {
			return bad
		}
		if stop := sample(fromUsage(answer.GetStats())); stop != nil {
			return stop
		}
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return ctx.Err()
	}
	if err = p.settle(ctx, inst, "TaskStats", err); !errors.Is(err, ErrPluginGone) {
		p.breaches.add(TrapStatsError, "TaskStats", err.Error())
	}
	return err
}
