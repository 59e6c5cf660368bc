package host

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// reopenPause keeps a plugin that ends its streams from taking a whole core. A real client
// re-opens them without any pause.
const reopenPause = 100 * time.Millisecond

// followStreams keeps the two lasting streams open until the plugin or the client ends.
func (p *Plugin) followStreams(inst *instance) {
	ctx, cancel := context.WithCancel(p.life)
	defer cancel()
	var streams sync.WaitGroup
	streams.Go(func() { p.keepOpen(ctx, inst, "Fingerprint", p.followFingerprint) })
	streams.Go(func() { p.keepOpen(ctx, inst, "TaskEvents", p.followEvents) })
	select {
	case <-inst.exited:
	case <-ctx.Done():
	}
	cancel()
	streams.Wait()
}

func (p *Plugin) keepOpen(ctx context.Context, inst *instance, call string, follow func(context.Context, *instance) error) {
	for {
		err := follow(ctx, inst)
		if ctx.Err() != nil {
			return
		}
		// The end of a stream is noticed before the end of the process.
		if err = p.settle(ctx, inst, call, err); errors.Is(err, ErrPluginGone) || isClosed(inst.exited) {
			return
		}
		p.breaches.add(TrapStreamEnds, call, err.Error())
		select {
		case <-inst.exited:
			return
		case <-ctx.Done():
			return
		case <-time.After(reopenPause):
		}
	}
}

func (p *Plugin) followFingerprint(ctx context.Context, inst *instance) error {
	stream, err := inst.Driver.Fingerprint(ctx, &driverpb.FingerprintRequest{})
	for err == nil {
		var answer *driverpb.FingerprintResponse
		if answer, err = stream.Recv(); err == nil {
			p.fingerprinted(fromFingerprint(answer))
		}
	}
	if !errors.Is(err, io.EOF) && ctx.Err() == nil {
		p.fingerprinted(failedFingerprint())
	}
	return err
}

func (p *Plugin) fingerprinted(f Fingerprint) {
	p.node.apply(f)
	if p.opts.OnFingerprint != nil {
		p.opts.OnFingerprint(f)
	}
}

func (p *Plugin) followEvents(ctx context.Context, inst *instance) error {
	stream, err := inst.Driver.TaskEvents(ctx, &driverpb.TaskEventsRequest{})
	for err == nil {
		var answer *driverpb.DriverTaskEvent
		if answer, err = stream.Recv(); err != nil {
			break
		}
		if bad := p.breaches.check("TaskEvents", answer); bad != nil {
			p.log.Warn("task event dropped", "error", bad)
			continue
		}
		if p.opts.OnEvent != nil {
			p.opts.OnEvent(fromEvent(answer))
		}
	}
	return err
}
