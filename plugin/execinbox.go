package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// inbox is what a user sends.
type inbox struct {
	messages <-chan *driverpb.ExecTaskStreamingRequest // closed when the user has left
	ended    <-chan struct{}                           // closed when no more input comes
}

// receive delivers what the user sends until the user leaves.
func receive(stream driverpb.Driver_ExecTaskStreamingServer) inbox {
	messages, ended := make(chan *driverpb.ExecTaskStreamingRequest), make(chan struct{})
	go func() {
		defer close(messages)
		end := sync.OnceFunc(func() { close(ended) })
		defer end()
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if m.GetStdin().GetClose() {
				end()
			}
			select {
			case messages <- m:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return inbox{messages, ended}
}

// endGrace is how long an exec that is over waits for the end of its user's input.
const endGrace = 250 * time.Millisecond

// hearOut waits for the end of the user's input after the exit has been sent. A
// client that still sends when the call returns takes its own failure to send
// for the exec's, and may not read the exit any more. Nobody waits for this: a
// user who has the exit leaves.
func (in inbox) hearOut(ctx context.Context) {
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case <-in.ended:
	case <-ctx.Done():
	case <-grace.C:
	}
}
