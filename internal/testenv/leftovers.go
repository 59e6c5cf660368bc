package testenv

import (
	"context"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// Leftovers lists every container, network and volume on the engine that
// carries the label, "key" or "key=value".
func Leftovers(t testing.TB, endpoint, label string) []string {
	t.Helper()
	// Called from cleanups too, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cl := Client(t, endpoint)
	by := filters.NewArgs(filters.Arg("label", label))
	var out []string
	cs, err := cl.ContainerList(ctx, container.ListOptions{All: true, Filters: by})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs {
		out = append(out, "container "+c.Names[0]+" "+c.Status)
	}
	ns, err := cl.NetworkList(ctx, network.ListOptions{Filters: by})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range ns {
		out = append(out, "network "+n.Name)
	}
	vs, err := cl.VolumeList(ctx, volume.ListOptions{Filters: by})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs.Volumes {
		out = append(out, "volume "+v.Name)
	}
	return out
}

// Images lists every image tag on the engine that starts with prefix.
func Images(t testing.TB, endpoint, prefix string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	all, err := Client(t, endpoint).ImageList(ctx, image.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range all {
		for _, tag := range i.RepoTags {
			if strings.HasPrefix(tag, prefix) {
				out = append(out, tag)
			}
		}
	}
	return out
}

// NoLeftovers fails the test when it ends and anything with the label is left.
// Call it before what makes such objects registers its own cleanup.
func NoLeftovers(t testing.TB, endpoint, label string) {
	t.Helper()
	t.Cleanup(func() {
		for _, x := range Leftovers(t, endpoint, label) {
			t.Errorf("left behind: %s", x)
		}
	})
}
