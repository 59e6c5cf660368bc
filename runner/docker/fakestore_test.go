package docker

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

func (f *fakeEngine) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (i image.InspectResponse, err error) {
	err = f.do(ctx, "ImageInspect "+ref, func() error {
		for name, have := range f.images {
			if name == ref || have.ID == ref {
				i = have
				if len(i.RepoTags) == 0 && name == ref {
					i.RepoTags = []string{name}
				}
				return nil
			}
		}
		return notFound("image: " + ref)
	})
	return i, err
}

func (f *fakeEngine) ImageLoad(ctx context.Context, r io.Reader, _ ...client.ImageLoadOption) (image.LoadResponse, error) {
	err := f.do(ctx, "ImageLoad", func() error {
		id, err := io.ReadAll(r)
		f.images["tools"] = image.InspectResponse{ID: string(id)}
		return err
	})
	return image.LoadResponse{Body: http.NoBody}, err
}

// DistributionInspect knows what is in registry, by digest and credentials.
func (f *fakeEngine) DistributionInspect(ctx context.Context, ref, auth string) (registry.DistributionInspect, error) {
	return registry.DistributionInspect{}, f.do(ctx, "DistributionInspect "+ref, func() error {
		if f.admits == nil {
			return fmt.Errorf("dial: %w", errdefs.ErrUnavailable)
		}
		return f.admits(ref, auth)
	})
}

func (f *fakeEngine) ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error) {
	err := f.do(ctx, "ImagePull "+ref, func() error {
		if f.admits != nil {
			if err := f.admits(ref, o.RegistryAuth); err != nil {
				return err
			}
		}
		i, ok := f.pull[ref]
		if !ok {
			return notFound("image: pull access denied for " + ref)
		}
		f.images[ref] = i
		return nil
	})
	if f.pullStalls {
		pr, pw := io.Pipe()
		context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
		go pw.Write([]byte(`{"status":"pulling"}`))
		return pr, err
	}
	if f.says != nil {
		return io.NopCloser(f.says), err
	}
	return io.NopCloser(strings.NewReader(`{"status":"pulling"}`)), err
}

func (f *fakeEngine) VolumeCreate(ctx context.Context, o volume.CreateOptions) (v volume.Volume, err error) {
	err = f.do(ctx, "VolumeCreate", func() error {
		if _, ok := f.volumes[o.Name]; !ok {
			f.volumes[o.Name] = volume.Volume{Name: o.Name, Labels: o.Labels}
		}
		v = f.volumes[o.Name]
		return nil
	})
	return v, err
}

func (f *fakeEngine) VolumeInspect(ctx context.Context, name string) (v volume.Volume, err error) {
	err = f.do(ctx, "VolumeInspect", func() error {
		var ok bool
		if v, ok = f.volumes[name]; !ok {
			return notFound("volume: " + name)
		}
		return nil
	})
	return v, err
}

func (f *fakeEngine) VolumeList(ctx context.Context, o volume.ListOptions) (resp volume.ListResponse, err error) {
	err = f.do(ctx, "VolumeList", func() error {
		for _, v := range f.volumes {
			if o.Filters.MatchKVList("label", v.Labels) {
				resp.Volumes = append(resp.Volumes, &v)
			}
		}
		return nil
	})
	return resp, err
}

func (f *fakeEngine) VolumeRemove(ctx context.Context, name string, _ bool) error {
	return f.do(ctx, "VolumeRemove", func() error {
		delete(f.volumes, name)
		return nil
	})
}

func (f *fakeEngine) ImageRemove(ctx context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	return nil, f.do(ctx, "ImageRemove "+ref, func() error {
		if _, ok := f.images[ref]; !ok {
			return notFound("image: " + ref)
		}
		delete(f.images, ref)
		return nil
	})
}
