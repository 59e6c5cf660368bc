package plugin

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// maxEvents bounds what waits for a client. It keeps ten events a task.
const maxEvents = 512

// events carries sentences about tasks to whoever reads the client's task
// events. Those that come while no client listens wait.
type events struct {
	mu     sync.Mutex
	queue  []*driverpb.DriverTaskEvent
	queued chan struct{} // holds a token while there may be something to send
}

func newEvents() *events { return &events{queued: make(chan struct{}, 1)} }

// emit queues an event. about are pairs of details.
func (e *events) emit(tc *driverpb.TaskConfig, message string, about ...string) {
	ev := &driverpb.DriverTaskEvent{
		TaskId: tc.GetId(), AllocId: tc.GetAllocId(), TaskName: tc.GetName(),
		Timestamp: timestamppb.New(time.Now()), Message: message,
	}
	for pair := range slices.Chunk(about, 2) {
		if ev.Annotations == nil {
			ev.Annotations = map[string]string{}
		}
		ev.Annotations[pair[0]] = pair[1]
	}
	e.mu.Lock()
	e.queue = append(e.queue, ev)
	if over := len(e.queue) - maxEvents; over > 0 {
		e.queue = slices.Delete(e.queue, 0, over)
	}
	e.mu.Unlock()
	e.wake()
}

func (e *events) wake() {
	select {
	case e.queued <- struct{}{}:
	default:
	}
}

// next takes the oldest event out.
func (e *events) next() (*driverpb.DriverTaskEvent, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, false
	}
	ev := e.queue[0]
	e.queue = e.queue[1:]
	return ev, true
}

// back puts an event that could not be sent to the front again.
func (e *events) back(ev *driverpb.DriverTaskEvent) {
	e.mu.Lock()
	e.queue = slices.Insert(e.queue, 0, ev)
	e.mu.Unlock()
	e.wake()
}

// TaskEvents sends events until the client leaves; a stream that ended would
// be opened again at once, for ever.
func (p *Plugin) TaskEvents(_ *driverpb.TaskEventsRequest, stream driverpb.Driver_TaskEventsServer) error {
	for {
		ev, ok := p.events.next()
		if ok {
			if err := stream.Send(ev); err != nil {
				p.events.back(ev)
				return err
			}
			continue
		}
		select {
		case <-p.events.queued:
		case <-stream.Context().Done():
			return nil
		}
	}
}
