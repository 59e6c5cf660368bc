package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// wrap names the step that failed and translates the engine's error into the
// contract's vocabulary, once. A nil error stays nil.
func wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	if s := sentinel(err); s != nil {
		return fmt.Errorf("%s: %w: %w", step, s, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// sentinel is the contract's word for an engine's error; nil when there is none.
func sentinel(err error) error {
	switch {
	case errdefs.IsNotFound(err):
		return runner.ErrNotFound
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err):
		return runner.ErrExists
	case errdefs.IsInvalidArgument(err):
		return runner.ErrInvalid
	case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err):
		return runner.ErrDenied
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err),
		errors.Is(err, context.DeadlineExceeded):
		return runner.ErrUnavailable
	}
	return nil
}

// answered reports whether an error is the engine's own word: it has not done what
// it was asked for, and is not going on with it.
func answered(err error) bool {
	return errdefs.IsInternal(err) || errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errdefs.IsInvalidArgument(err)
}

// incomplete is the error of an answer without what every such answer has: it
// says as little as none.
func incomplete(what string) error {
	return fmt.Errorf("%s: the engine's answer is incomplete: %w", what, runner.ErrUnavailable)
}

// goneIsNil is for removing: what is not there need not be removed.
func goneIsNil(err error) error {
	if errors.Is(err, runner.ErrNotFound) {
		return nil
	}
	return err
}

// isNoSuchImage: a create failed because its image vanished meanwhile. Other
// drivers on the node collect images without knowing who uses them.
func isNoSuchImage(err error) bool {
	return errdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "no such image")
}
