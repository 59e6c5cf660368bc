package docker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// changing is an engine with one container, which is asked about its changes.
type changing struct {
	*scripted
	runtime string
	args    []string // that it is registered with
	paths   []string // that changed
	ends    bool     // it ends as it is asked
	poor    bool     // once ended, nobody says how it was made
	ended   bool
}

func (e *changing) ContainerDiff(context.Context, string) (out []container.FilesystemChange, err error) {
	e.ended = e.ended || e.ends
	for _, p := range e.paths {
		out = append(out, container.FilesystemChange{Path: p})
	}
	return out, nil
}

func (e *changing) ContainerInspect(ctx context.Context, ref string) (container.InspectResponse, error) {
	c, err := e.scripted.ContainerInspect(ctx, ref)
	c.HostConfig = &container.HostConfig{Runtime: e.runtime, Tmpfs: map[string]string{"/tmp": ""}}
	if e.poor && e.ended {
		c.HostConfig = nil
	}
	c.Mounts = []container.MountPoint{{Destination: "/.wardyn"}, {Destination: "/etc/hosts"}}
	return c, err
}

func (e *changing) Info(context.Context) (system.Info, error) {
	return system.Info{ServerVersion: "28.5.2", Runtimes: map[string]system.RuntimeWithStatus{e.runtime: {Runtime: system.Runtime{Args: e.args}}}}, nil
}

// D-11, K24: what only gVisor sees is no image, and is refused with the remedy.
// A sandbox that has ended shows no sign of that any more, so that its changes
// must be seen, or be known to be given out.
func TestD11ChangesKeptByGVisor(t *testing.T) {
	mountPoints := []string{"/.wardyn", "/etc", "/etc/hosts", "/dev"}
	for name, c := range map[string]struct {
		engine  changing
		refused string
	}{
		"kept":                        {changing{runtime: "runsc", paths: []string{"/.wardyn", "/.gvisor.filestore.0123"}}, "keeps the changes"},
		"kept, other name":            {changing{runtime: "runsc-kvm", paths: []string{"/.gvisor.filestore.9"}}, "keeps the changes"},
		"given while it runs":         {changing{runtime: "runsc", paths: mountPoints}, ""},
		"not gVisor":                  {changing{runtime: "runc", paths: []string{"/.gvisor.filestore.0123"}, ended: true}, ""},
		"ended, nothing to tell by":   {changing{runtime: "runsc", paths: mountPoints, ended: true}, "ended before it could be seen"},
		"ends meanwhile":              {changing{runtime: "runsc", paths: mountPoints, ends: true}, "ended before it could be seen"},
		"ends, and half an answer":    {changing{runtime: "runsc", paths: mountPoints, ends: true, poor: true}, "ended before it could be seen"},
		"ended, its changes are seen": {changing{runtime: "runsc", paths: append(mountPoints, "/opt/tool"), ended: true}, ""},
		"ended, known by its name":    {changing{runtime: "runsc", args: []string{"--debug", "-overlay2=none"}, paths: mountPoints, ended: true}, ""},
	} {
		s := &scripted{}
		r, e := newScripted(t, s), c.engine
		e.scripted, r.api = s, &e
		s.inspect = func() (*container.State, error) {
			if e.ended {
				return exitedState(0), nil
			}
			return runningState(), nil
		}
		err := r.Committable(t.Context(), scriptedRef)
		if refused := errors.Is(err, runner.ErrUnsupported) && strings.Contains(err.Error(), c.refused) && strings.Contains(err.Error(), overlayOff); refused != (c.refused != "") || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && c.engine.runtime == "runsc" && !c.engine.ended {
			// What was seen while it ran holds when it has ended.
			if e.ended = true; r.Committable(t.Context(), scriptedRef) != nil {
				t.Errorf("%s: refused when it has ended", name)
			}
		}
	}
}
