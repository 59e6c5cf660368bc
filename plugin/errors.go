package plugin

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// lasting are the errors that another attempt on this node would meet again.
// Every other one may pass: an engine that is away, a registry that cannot be
// reached, a pool that is used up.
var lasting = []error{
	runner.ErrInvalid, runner.ErrDenied, runner.ErrNotFound, runner.ErrClassUnavailable,
	runner.ErrUnsupported, runner.ErrPrecondition,
}

// startError is an error of StartTask as the client needs it: it says whether
// the task may be tried again here.
func startError(err error) error {
	return wire.Recoverable(err, mayPass(err))
}

func mayPass(err error) bool {
	var f *faults
	if errors.As(err, &f) || errors.Is(err, errState) {
		return false
	}
	// A step that ran out of time says nothing about the task, whatever else
	// is wrapped with it.
	if errors.Is(err, runner.ErrUnavailable) || errors.Is(err, runner.ErrExhausted) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	for _, l := range lasting {
		if errors.Is(err, l) {
			return false
		}
	}
	return true
}

// errState marks a call that contradicts what this process knows of a task.
var errState = errors.New("wrong state")

// callError is an error of any other call. Clients show its text; the codes
// that mean a dead plugin are kept off by the wire.
func callError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, runner.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, runner.ErrDenied):
		code = codes.PermissionDenied
	case errors.Is(err, runner.ErrPrecondition), errors.Is(err, errState):
		code = codes.FailedPrecondition
	}
	return status.Error(code, err.Error())
}
