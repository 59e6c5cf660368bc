package docker

import "context"

// DiskUsage is how many bytes a sandbox has written over its image. The engine
// adds up the files, which takes as long as there are many.
func (r *Runner) DiskUsage(ctx context.Context, ref string) (int64, error) {
	c, _, err := r.api.ContainerInspectWithRaw(ctx, ref, true)
	if err != nil {
		return 0, wrap("measure "+ref, err)
	}
	if c.SizeRw == nil {
		return 0, nil
	}
	return *c.SizeRw, nil
}
