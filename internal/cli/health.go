package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// patience is how long an unhealthy driver may take to get well, and how long
// the first word of it may take.
const (
	healthPatience = 20 * time.Second
	firstPatience  = 2 * time.Minute
)

// latest puts a value into a channel of one place, over what is in it.
func latest[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// awaitHealthy returns when the driver says that it is healthy. Why it is not
// is told as soon as it is known.
func awaitHealthy(ctx context.Context, prints <-chan host.Fingerprint, out *printer) error {
	deadline := time.NewTimer(firstPatience)
	defer deadline.Stop()
	last := host.Fingerprint{Description: "it has not said anything"}
	told := false
	for {
		select {
		case f := <-prints:
			if f.Health == host.Healthy {
				return nil
			}
			if !told {
				deadline.Reset(healthPatience)
			}
			if !told || f.Description != last.Description {
				out.event("", "The driver is %s: %s", f.Health, f.Description)
			}
			last, told = f, true
		case <-deadline.C:
			return fmt.Errorf("the driver is %s: %s", last.Health, last.Description)
		case <-ctx.Done():
			return fmt.Errorf("wait for the driver: %w", ctx.Err())
		}
	}
}
