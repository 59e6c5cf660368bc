package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/storage"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// folderWith makes a folder of links, and of folders where a link's text is "".
func folderWith(t *testing.T, links map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, to := range links {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to == "" {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.Symlink(to, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// K26, K30: no link of an image, nor one in what a job mounts, leads anything
// over the driver's own files, or those elsewhere. Links that lead to places a
// job could name itself stay usable.
func TestK30LinksAtMounts(t *testing.T) {
	mounts := func(m ...runner.TaskMount) *runner.TaskProcess { return &runner.TaskProcess{Mounts: m} }
	shared := folderWith(t, map[string]string{"plain": "", "x": "/.wardyn", "up": "../.wardyn/..", "etc": "/etc"})
	for name, c := range map[string]struct {
		layers []map[string]string // topmost first
		task   *runner.TaskProcess
		says   string
	}{
		"none":                  {task: mounts(runner.TaskMount{Source: shared, Target: "/data"})},
		"at our folder":         {layers: []map[string]string{{".wardyn": "/workspace"}}, says: "has a link"},
		"in a lower layer":      {layers: []map[string]string{{"a": ""}, {".wardyn": "tmp"}}, says: "has a link"},
		"hidden by a layer":     {layers: []map[string]string{{".wardyn": ""}, {".wardyn": "/tmp"}}},
		"below our folder":      {layers: []map[string]string{{".wardyn/wardyn-rec": "/bin/sh"}}},
		"an image's own way":    {layers: []map[string]string{{"var/run": "/run"}}, task: mounts(runner.TaskMount{Target: "/var/run/x"})},
		"a mount onto ours":     {layers: []map[string]string{{"a/b/c": "/.wardyn"}}, task: mounts(runner.TaskMount{Target: "/a/b/c"}), says: `links lead it to "/.wardyn"`},
		"below ours":            {layers: []map[string]string{{"a": "."}, {"b": "a/.wardyn"}}, task: mounts(runner.TaskMount{Target: "/b/wardyn-rec"}), says: `"/.wardyn/wardyn-rec"`},
		"onto the root":         {layers: []map[string]string{{"a": "/b/..", "b": ""}}, task: mounts(runner.TaskMount{Target: "/a"}), says: `links lead it to "/"`},
		"onto the resolver":     {layers: []map[string]string{{"a": "/etc"}}, task: mounts(runner.TaskMount{Target: "/a/resolv.conf"}), says: "resolv.conf"},
		"without an end":        {layers: []map[string]string{{"a": "b", "b": "a"}}, task: mounts(runner.TaskMount{Target: "/a/x"}), says: "more than 40 links"},
		"a job's own link":      {task: mounts(runner.TaskMount{Target: "/data/x"}, runner.TaskMount{Source: shared, Target: "/data"}), says: `"/.wardyn"`},
		"a job's link, upwards": {task: mounts(runner.TaskMount{Source: shared, Target: "/data"}, runner.TaskMount{Target: "/data/up"}), says: `"/"`},
		"a job's own folder":    {task: mounts(runner.TaskMount{Source: shared, Target: "/data"}, runner.TaskMount{Target: "/data/plain"})},
		"beside a mount, where its link may count or not": {layers: []map[string]string{{"b": "/a/plain"}},
			task: mounts(runner.TaskMount{Target: "/b"}, runner.TaskMount{Source: shared, Target: "/a"}), says: "which of two mounts comes first"},
		"beside a mount, onto it": {layers: []map[string]string{{"b": "/a"}},
			task: mounts(runner.TaskMount{Target: "/b"}, runner.TaskMount{Source: shared, Target: "/a"})},
		"memory onto ours": {layers: []map[string]string{{"a": "/.wardyn"}},
			task: &runner.TaskProcess{Tmpfs: []runner.Tmpfs{{Target: "/a"}}}, says: `"/.wardyn"`},
	} {
		img := imageFacts{}
		for _, l := range c.layers {
			img.Layers = append(img.Layers, folderWith(t, l))
		}
		err := checkLinks(runner.SandboxSpec{Image: "agent:1", Task: c.task}, img)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	img := imageFacts{Layers: []string{folderWith(t, map[string]string{"v": "/.wardyn"})}, Volumes: []string{"/v/"}}
	if err := checkLinks(runner.SandboxSpec{}, img); err == nil || !strings.Contains(err.Error(), "/.wardyn") {
		t.Errorf("a volume that the image declares: %v", err)
	}
}

// K30: what is mounted in a container, volumes and the sandbox's own files, is
// looked at as an image is, and a layer's folder that stands for another one is
// not taken at its word.
func TestK30LinksOfAContainer(t *testing.T) {
	with := func(upper string, tmpfs map[string]string, m ...container.MountPoint) container.InspectResponse {
		return container.InspectResponse{Mounts: m, ContainerJSONBase: &container.ContainerJSONBase{
			GraphDriver: storage.DriverData{Name: "overlay2", Data: map[string]string{"UpperDir": upper}}, HostConfig: &container.HostConfig{Tmpfs: tmpfs},
		}}
	}
	plain, astray := folderWith(t, map[string]string{"srv": ""}), folderWith(t, map[string]string{"x": "/.wardyn"})
	ours := container.MountPoint{Type: mount.TypeBind, Source: plain, Destination: ownTarget}
	below := container.MountPoint{Type: mount.TypeBind, Source: plain, Destination: "/data/x"}
	renamed := folderWith(t, map[string]string{"data": ""})
	if err := unix.Setxattr(filepath.Join(renamed, "data"), redirect, []byte("srv"), 0); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		c    container.InspectResponse
		says string
	}{
		"nothing astray":     {with(plain, nil, ours, container.MountPoint{Type: mount.TypeVolume, Source: plain, Destination: "/data"}, below), ""},
		"a volume's link":    {with(plain, nil, ours, container.MountPoint{Type: mount.TypeVolume, Source: astray, Destination: "/data"}, below), `links lead it to "/.wardyn"`},
		"the sandbox's own":  {with(folderWith(t, map[string]string{"data": "/.wardyn"}), nil, ours, below), `links lead it to "/.wardyn/x"`},
		"memory":             {with(folderWith(t, map[string]string{"m": "/.wardyn"}), map[string]string{"/m": ""}, ours), `links lead it to "/.wardyn"`},
		"at our folder":      {with(folderWith(t, map[string]string{".wardyn": "/srv"}), nil, ours), `has become a link to "/srv"`},
		"a renamed folder":   {with(renamed, nil, ours, below), "was renamed in a layer"},
		"one nobody goes by": {with(renamed, nil, ours), ""},
	} {
		err := checkContainerLinks(c.c)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// K30: what a higher layer has replaced is not there. A link of it would have a
// mount seem to lie where the image's own files are, whose links then count for
// nothing.
func TestK30LinksThatAreReplaced(t *testing.T) {
	top := map[string]string{"safe/p": "/.wardyn"}
	replaced := folderWith(t, map[string]string{"safe/p": "/.wardyn", "a": ""})
	if err := unix.Setxattr(filepath.Join(replaced, "a"), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	removed := folderWith(t, top)
	if err := unix.Mknod(filepath.Join(removed, "a"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	lower := folderWith(t, map[string]string{"a/l": "/safe"})
	astray := runner.SandboxSpec{Task: &runner.TaskProcess{Mounts: []runner.TaskMount{
		{Source: folderWith(t, nil), Target: "/a/l"}, {Target: "/safe/p/wardyn-rec"},
	}}}
	for name, layers := range map[string][]string{
		"as a whole":             {replaced, lower},
		"removed":                {removed, lower},
		"by a folder, of a link": {folderWith(t, map[string]string{"safe/p": "/.wardyn", "a": ""}), folderWith(t, map[string]string{"a": "b", "b/l": "/safe"})},
		"below what is folder":   {folderWith(t, top), replaced, lower},
	} {
		if err := checkLinks(astray, imageFacts{Layers: layers}); err == nil || !strings.Contains(err.Error(), `links lead it to "/.wardyn/wardyn-rec"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
