package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// The engine's words become the contract's once, and keep their own text.
func TestErrorTranslation(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want error // nil is none of the contract's
	}{
		{errdefs.ErrNotFound, runner.ErrNotFound},
		{errdefs.ErrConflict, runner.ErrExists},
		{errdefs.ErrAlreadyExists, runner.ErrExists},
		{errdefs.ErrInvalidArgument, runner.ErrInvalid},
		{errdefs.ErrPermissionDenied, runner.ErrDenied},
		{errdefs.ErrUnauthenticated, runner.ErrDenied},
		{errdefs.ErrUnavailable, runner.ErrUnavailable},
		{context.DeadlineExceeded, runner.ErrUnavailable},
		//lint:ignore SA1019 the only way to make the error the client returns
		{client.ErrorConnectionFailed("unix:///x"), runner.ErrUnavailable},
		{context.Canceled, nil},
		{errdefs.ErrInternal, nil},
		{errors.New("anything"), nil},
	} {
		err := wrap("step", fmt.Errorf("the engine says: %w", tc.err))
		if !errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), "step: ") || !strings.Contains(err.Error(), "the engine says") {
			t.Errorf("%v: %v", tc.err, err)
		}
		for _, s := range []error{runner.ErrNotFound, runner.ErrExists, runner.ErrInvalid, runner.ErrDenied, runner.ErrUnavailable} {
			if errors.Is(err, s) != (s == tc.want) {
				t.Errorf("%v: is %v: %v", tc.err, s, errors.Is(err, s))
			}
		}
	}
	if wrap("step", nil) != nil {
		t.Error("nil did not stay nil")
	}
}

func TestIsNoSuchImage(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("No such image: x: %w", errdefs.ErrNotFound):     true,
		fmt.Errorf("no such image: x: %w", errdefs.ErrNotFound):     true,
		fmt.Errorf("No such container: x: %w", errdefs.ErrNotFound): false,
		errors.New("No such image: x"):                              false,
	} {
		if got := isNoSuchImage(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
