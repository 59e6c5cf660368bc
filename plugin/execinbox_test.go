package plugin

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// typist is a stream whose user sends these messages and then nothing.
type typist struct {
	driverpb.Driver_ExecTaskStreamingServer
	ctx      context.Context
	messages chan *driverpb.ExecTaskStreamingRequest
}

func (s typist) Context() context.Context { return s.ctx }

func (s typist) Recv() (*driverpb.ExecTaskStreamingRequest, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

// TestExecEndsAfterItsInput: a call stays open until its user's input has
// ended, until the user leaves, or for a moment; a message that nobody takes
// holds nothing up.
func TestExecEndsAfterItsInput(t *testing.T) {
	end := &driverpb.ExecTaskStreamingRequest{Stdin: &driverpb.ExecTaskStreamingIOOperation{Close: true}}
	for name, c := range map[string]struct {
		ends func(s typist, leave func())
		wait time.Duration
	}{
		"input ends": {func(s typist, _ func()) { s.messages <- end }, endGrace / 2},
		"user left":  {func(_ typist, leave func()) { leave() }, endGrace / 2},
		"neither":    {func(typist, func()) {}, endGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			s := typist{ctx: ctx, messages: make(chan *driverpb.ExecTaskStreamingRequest, 1)}
			in := receive(s)
			go func() {
				time.Sleep(endGrace / 2)
				c.ends(s, leave)
			}()
			began := time.Now()
			in.hearOut(ctx)
			if took := time.Since(began); took != c.wait {
				t.Errorf("%s: it waited %s, want %s", name, took, c.wait)
			}
		})
	}
}

// TestRefusedExecHearsItsUserOut: a client that still sends when a refusal comes
// takes its failure to send for the answer, and its user reads "unexpected EOF".
func TestRefusedExecHearsItsUserOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		s := typist{ctx: ctx, messages: make(chan *driverpb.ExecTaskStreamingRequest, 2)}
		s.messages <- &driverpb.ExecTaskStreamingRequest{Setup: &driverpb.ExecTaskStreamingRequest_Setup{TaskId: "nobody", Command: []string{"true"}}}
		began := time.Now()
		err := (&Plugin{tasks: &store{}}).ExecTaskStreaming(s)
		if took := time.Since(began); err == nil || took != endGrace {
			t.Errorf("%v after %s, want a refusal after %s", err, took, endGrace)
		}
	})
}
