package plugin

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// snapshotTimeout bounds the making of an image out of a sandbox.
const snapshotTimeout = 10 * time.Minute

var snapshotName = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// suspend freezes the sandbox; one that is frozen stays so.
func suspend(c verbCall) error {
	if h, _ := c.plugin.options(); h.Sessions.NoSuspend {
		return fmt.Errorf("suspend: %w", refuseSession("suspend"))
	}
	if c.cold {
		return c.park()
	}
	_, b, err := c.plugin.living(string(c.task.id))
	if err != nil {
		return plainError(err)
	}
	if err := b.Driver.Suspend(c.ctx, c.task.state.Ref, true); err != nil {
		return err
	}
	fmt.Fprintln(c.out, "suspended")
	return nil
}

// park stops the sandbox's main process and frees its slot; one that is parked
// stays so.
func (c verbCall) park() error {
	t, b, err := c.plugin.livingOrParked(string(c.task.id))
	if err != nil {
		return plainError(err)
	}
	if err := c.plugin.park(b, t); err != nil {
		return err
	}
	fmt.Fprintln(c.out, parkedState)
	return nil
}

// resume thaws it, or starts its command again when it is parked.
func resume(c verbCall) error {
	if c.task.parking.until() != nil {
		_, b, err := c.plugin.livingOrParked(string(c.task.id))
		if err != nil {
			return plainError(err)
		}
		if err := c.plugin.resumeParked(b, c.task); err != nil {
			return err
		}
		fmt.Fprintln(c.out, "running")
		return nil
	}
	_, b, err := c.plugin.living(string(c.task.id))
	if err != nil {
		return plainError(err)
	}
	if err := c.plugin.thaw(c.ctx, b, c.task); err != nil {
		return err
	}
	fmt.Fprintln(c.out, "running")
	return nil
}

// snapshot makes an image of the sandbox's file system that jobs of the
// namespace can name.
func snapshot(c verbCall) error {
	if len(c.args) != 1 || !snapshotName.MatchString(c.args[0]) || len(c.args[0]) > 100 {
		return &useError{"snapshot NAME: want one name of lower-case letters, digits and . _ - between them"}
	}
	if h, _ := c.plugin.options(); h.Sessions.NoSnapshot {
		return fmt.Errorf("snapshot: %w", refuseSession("snapshot"))
	}
	namespace := c.task.config.GetNamespace()
	if namespace == "" {
		return fmt.Errorf("the Nomad client does not say in which namespace the job is, so nothing can be kept for it: %w", runner.ErrDenied)
	}
	_, b, err := c.plugin.living(string(c.task.id))
	if err != nil {
		return plainError(err)
	}
	// Longer than other verbs may take, and to its end also when the user leaves.
	ctx, cancel := context.WithTimeout(c.plugin.life, snapshotTimeout)
	defer cancel()
	s, err := b.Driver.Snapshot(ctx, c.task.state.Ref, driver.NamedSnapshot(namespace, c.args[0]), driver.StripEnv(c.task.config.GetEnv()))
	c.plugin.sendIfRunning(b, c.task)
	if err != nil {
		return err
	}
	c.plugin.events.emit(c.task.config, "Snapshot "+s.Ref+" made", "image", s.Ref)
	fmt.Fprintln(c.out, s.Ref)
	return nil
}

// plainError is an error of a call in the words of a verb, without the code
// that calls have.
func plainError(err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s", s.Message())
	}
	return err
}

// openShell is reached only with more words than the verb has: a shell itself
// is a process in the sandbox, which ExecTaskStreaming starts.
func openShell(verbCall) error { return &useError{"shell takes no arguments"} }
