package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// VolumePresent reports whether a volume of that name exists, whoever made it.
func (r *Runner) VolumePresent(ctx context.Context, name string) (bool, error) {
	_, err := r.inspectVolume(ctx, name)
	if errors.Is(err, runner.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ListVolumes returns the named volumes of this instance, with their sizes.
func (r *Runner) ListVolumes(ctx context.Context) ([]runner.Volume, error) {
	c, cancel := call(ctx)
	defer cancel()
	found, err := r.api.VolumeList(c, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelInstance+"="+r.opts.Dir.Instance()),
		filters.Arg("label", labelComponent+"="+componentVolume),
	)})
	if err != nil {
		return nil, wrap("list volumes", err)
	}
	users, err := r.volumeUsers(ctx)
	if err != nil {
		return nil, err
	}
	var out []runner.Volume
	for _, v := range found.Volumes {
		if v == nil || !r.owns(v.Name, v.Labels) {
			continue
		}
		made, _ := time.Parse(time.RFC3339, v.CreatedAt) // the zero time where the engine does not say
		out = append(out, runner.Volume{
			Name: v.Name, Labels: maps.Clone(v.Labels), Created: made,
			Bytes: volumeSize(ctx, v.Mountpoint), Users: users[v.Name],
		})
	}
	return out, nil
}

// volumeUsers lists the containers that have volumes mounted, by volume.
func (r *Runner) volumeUsers(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	all, err := r.api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, wrap("list the users of volumes", err)
	}
	out := map[string][]string{}
	for _, c := range all {
		for _, m := range c.Mounts {
			if m.Name != "" && len(c.Names) > 0 {
				out[m.Name] = append(out[m.Name], strings.TrimPrefix(c.Names[0], "/"))
			}
		}
	}
	return out, nil
}

// volumeSize is what a volume takes on disk in bytes, -1 where that cannot be
// measured.
func volumeSize(ctx context.Context, dir string) int64 {
	n, err := taskpath.TreeSize(ctx, dir, "")
	if err != nil {
		return -1
	}
	return n
}

// ExportVolume writes the files of a volume of this instance as a tar archive.
// Links are written as links and never followed; sockets and devices are left
// out, since no archive brings them back to life.
func (r *Runner) ExportVolume(ctx context.Context, name string, w io.Writer) error {
	v, err := r.inspectVolume(ctx, name)
	if err != nil {
		return err
	}
	if err := r.checkVolume(v, nil); err != nil {
		return err
	}
	root, err := os.OpenRoot(v.Mountpoint)
	if err != nil {
		return fmt.Errorf("volume %s: %w", name, err)
	}
	defer root.Close()
	t := tar.NewWriter(w)
	if err := exportTree(ctx, t, root); err != nil {
		return fmt.Errorf("volume %s: %w", name, err)
	}
	return t.Close()
}

// exportTree writes all that is below root. What a sandbox removes meanwhile is
// not in it.
func exportTree(ctx context.Context, t *tar.Writer, root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && ctx.Err() == nil {
			err = exportEntry(t, root, path, d)
		}
		if path != "." && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, ctx.Err())
	})
}

// exportEntry writes one file. A sandbox may change it meanwhile: what is
// opened is what is described.
func exportEntry(t *tar.Writer, root *os.Root, path string, d fs.DirEntry) error {
	if path == "." {
		return nil
	}
	if d.Type()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(path)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		return writeHeader(t, fi, path, to)
	}
	if !d.IsDir() && !d.Type().IsRegular() {
		return nil
	}
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.IsDir() && !fi.Mode().IsRegular() {
		return err
	}
	if err := writeHeader(t, fi, path, ""); err != nil || fi.IsDir() {
		return err
	}
	n, err := io.Copy(t, io.LimitReader(f, fi.Size()))
	if err == nil && n < fi.Size() {
		err = fmt.Errorf("%s shrank while it was read", path)
	}
	return err
}

func writeHeader(t *tar.Writer, fi fs.FileInfo, path, link string) error {
	h, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	h.Name = path
	if fi.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname = "", "" // names of this host mean nothing elsewhere
	return t.WriteHeader(h)
}
