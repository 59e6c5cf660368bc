package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// How long a driver that is not healthy may stay as it is, and how long it may
// take in all to get well. Its probes run containers, which takes a while on a
// busy machine.
const (
	sickPatience  = 45 * time.Second
	totalPatience = 3 * time.Minute
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
// is told as soon as it is known, and given up on when it does not change.
func awaitHealthy(ctx context.Context, prints <-chan host.Fingerprint, out *printer) error {
	total := time.NewTimer(totalPatience)
	defer total.Stop()
	sick := time.NewTimer(totalPatience) // from the first word on: sickPatience
	defer sick.Stop()
	last, told := host.Fingerprint{Description: "it has not said anything"}, false
	for {
		select {
		case f := <-prints:
			if f.Health == host.Healthy {
				if told {
					out.event("", "The driver is healthy")
				}
				return nil
			}
			if f.Health != last.Health || f.Description != last.Description {
				out.event("", "The driver is %s: %s", f.Health, f.Description)
				told = true
				sick.Reset(sickPatience)
			}
			last = f
			continue
		case <-ctx.Done():
			return fmt.Errorf("wait for the driver: %w", ctx.Err())
		case <-sick.C:
		case <-total.C:
		}
		return &unwell{last}
	}
}

// unwell is a driver that did not get healthy.
type unwell struct{ last host.Fingerprint }

// Error leaves the reason out where it was told when it became known.
func (u *unwell) Error() string {
	if u.last.Health == host.Unhealthy {
		return "given up: the driver stays unhealthy, for the reason above"
	}
	return fmt.Sprintf("given up: the driver is %s: %s", u.last.Health, u.last.Description)
}
