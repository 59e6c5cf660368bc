package controlplane

import (
	"context"
	"log/slog"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
)

// Renewal times: half of what is left, within bounds; after a failure the old
// token stays and the next try is soon.
const (
	renewAtLeast = time.Minute
	renewAtMost  = 30 * time.Minute
	renewRetry   = time.Minute
)

// KeepRenewed renews the run token until ctx ends. A control plane that does
// not renew is logged and asked again; the old token stays.
func (c *Client) KeepRenewed(ctx context.Context, mask *audit.Mask, log *slog.Logger) {
	for {
		wait := renewRetry
		expires, err := c.Renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("run token not renewed", "error", err)
		default:
			mask.Add(c.bearer())
			wait = min(max(time.Until(expires)/2, renewAtLeast), renewAtMost)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
