package testenv

import (
	"testing"

	"github.com/docker/docker/api/types/container"
)

func TestImageRunsAndIsRemoved(t *testing.T) {
	endpoint := Engine(t)
	cl := Client(t, endpoint)
	name := ""
	t.Run("use", func(t *testing.T) {
		name = Image(t)
		for _, rt := range Runtimes(t) {
			c, err := cl.ContainerCreate(t.Context(), &container.Config{Image: name, Cmd: []string{"id", "agent"},
				Labels: map[string]string{"wardyn-testenv": "1"}}, &container.HostConfig{Runtime: rt}, nil, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			wait, errs := cl.ContainerWait(t.Context(), c.ID, container.WaitConditionNextExit)
			if err := cl.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
				t.Error(err)
			} else {
				select {
				case w := <-wait:
					if w.StatusCode != 0 {
						t.Errorf("%s: exit %d", rt, w.StatusCode)
					}
				case err := <-errs:
					t.Error(err)
				}
			}
			if len(Leftovers(t, endpoint, "wardyn-testenv")) == 0 {
				t.Error("Leftovers sees nothing")
			}
			if err := cl.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := cl.ImageInspect(t.Context(), name); err == nil {
		t.Error("the image outlived its test")
	}
	NoLeftovers(t, endpoint, "wardyn-testenv")
}
