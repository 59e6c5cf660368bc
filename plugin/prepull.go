package plugin

import (
	"context"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
)

// How long to wait before an image that could not be fetched is asked for
// again: at first, and at most.
const (
	prepullAgain = time.Minute
	prepullMost  = time.Hour
)

// prepull fetches the images that the operator wants on the node ahead of any
// task, one after the other. It is done when each has been fetched once, or ctx
// ends. A failure costs nothing but the slower start it was to spare.
func (p *Plugin) prepull(ctx context.Context, d driver.Driver, images []string, again time.Duration) {
	for len(images) > 0 {
		var failed []string
		for _, image := range images {
			if err := d.Prepull(ctx, image); err != nil {
				p.log.Warn("an image is not fetched ahead of time", "image", image, "error", err, "again_in", again)
				failed = append(failed, image)
				continue
			}
			p.log.Info("image fetched ahead of time", "image", image)
		}
		images = failed
		if len(images) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
		again = min(2*again, prepullMost)
	}
}
