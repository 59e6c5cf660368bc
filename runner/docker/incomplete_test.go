package docker

import (
	"context"
	"errors"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// poorly is an engine that answers one kind of question with an empty object.
type poorly struct {
	*fakeEngine
	about string
}

func (e poorly) Info(ctx context.Context) (system.Info, error) {
	if e.about == "info" {
		return system.Info{}, nil
	}
	return e.fakeEngine.Info(ctx)
}

func (e poorly) ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error) {
	if e.about == "image" {
		return image.InspectResponse{}, nil
	}
	return e.fakeEngine.ImageInspect(ctx, ref, o...)
}

func (e poorly) NetworkInspect(ctx context.Context, id string, o network.InspectOptions) (network.Inspect, error) {
	if e.about == "network" {
		return network.Inspect{}, nil
	}
	return e.fakeEngine.NetworkInspect(ctx, id, o)
}

func (e poorly) VolumeInspect(ctx context.Context, name string) (volume.Volume, error) {
	if e.about == "volume" {
		return volume.Volume{}, nil
	}
	return e.fakeEngine.VolumeInspect(ctx, name)
}

// Invariant 8: an answer that says nothing is none. Nobody is blamed for it, and
// what was asked about is neither gone nor another's.
func TestI8EmptyAnswers(t *testing.T) {
	for about, ask := range map[string]func(*fakeWorld, context.Context) error{
		"info":    func(w *fakeWorld, ctx context.Context) error { _, err := w.CreateSandbox(ctx, fakeSpec()); return err },
		"image":   func(w *fakeWorld, ctx context.Context) error { _, err := w.CreateSandbox(ctx, fakeSpec()); return err },
		"network": func(w *fakeWorld, ctx context.Context) error { _, err := w.EgressGateway(ctx); return err },
		"volume":  func(w *fakeWorld, ctx context.Context) error { return w.RemoveVolume(ctx, "v") },
	} {
		w := newFakeWorld(t)
		w.api = poorly{w.engine, about}
		w.engine.volumes["v"] = volume.Volume{Name: "v"}
		if about == "info" {
			w.Runner.engine = factsCache{}
		}
		err := ask(w, t.Context())
		if !errors.Is(err, runner.ErrUnavailable) || errors.Is(err, runner.ErrNotFound) || errors.Is(err, runner.ErrInvalid) || errors.Is(err, runner.ErrExists) {
			t.Errorf("%s: %v", about, err)
		}
	}
}
