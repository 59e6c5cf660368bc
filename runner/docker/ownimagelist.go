package docker

import (
	"context"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// imageUsers lists the containers of each image, by its id.
func (r *Runner) imageUsers(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	all, err := r.api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, wrap("list the users of images", err)
	}
	out := map[string][]string{}
	for _, c := range all {
		if len(c.Names) > 0 {
			out[c.ImageID] = append(out[c.ImageID], strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	return out, nil
}

// ownSize describes one of our images. What it takes is what it has beyond its
// base, where that is still there.
func (r *Runner) ownSize(ctx context.Context, s image.Summary, ref string, users map[string][]string) runner.Image {
	out := runner.Image{
		Ref: ref, ID: s.ID, Labels: s.Labels, Created: time.Unix(s.Created, 0), Bytes: s.Size, Users: users[s.ID],
	}
	if base, err := r.inspectFull(ctx, s.Labels[labelBase]); err == nil && base.Size <= s.Size {
		out.Bytes -= base.Size
	}
	out.Used = r.lastUse(out)
	return out
}
