package docker

import (
	"context"
	"io"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// api is the part of the Docker client that this package uses.
type api interface {
	Ping(ctx context.Context) (types.Ping, error)
	Info(ctx context.Context) (system.Info, error)
	ServerVersion(ctx context.Context) (types.Version, error)

	ContainerCreate(ctx context.Context, c *container.Config, h *container.HostConfig, n *network.NetworkingConfig, p *ocispec.Platform, name string) (container.CreateResponse, error)
	ContainerStart(ctx context.Context, id string, o container.StartOptions) error
	ContainerStop(ctx context.Context, id string, o container.StopOptions) error
	ContainerKill(ctx context.Context, id, signal string) error
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerInspectWithRaw(ctx context.Context, id string, size bool) (container.InspectResponse, []byte, error)
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	ContainerWait(ctx context.Context, id string, c container.WaitCondition) (<-chan container.WaitResponse, <-chan error)
	ContainerAttach(ctx context.Context, id string, o container.AttachOptions) (types.HijackedResponse, error)
	ContainerLogs(ctx context.Context, id string, o container.LogsOptions) (io.ReadCloser, error)
	ContainerStats(ctx context.Context, id string, stream bool) (container.StatsResponseReader, error)
	ContainerPause(ctx context.Context, id string) error
	ContainerUnpause(ctx context.Context, id string) error
	ContainerCommit(ctx context.Context, id string, o container.CommitOptions) (container.CommitResponse, error)
	ContainerDiff(ctx context.Context, id string) ([]container.FilesystemChange, error)
	ContainerResize(ctx context.Context, id string, o container.ResizeOptions) error

	ContainerExecCreate(ctx context.Context, id string, o container.ExecOptions) (container.ExecCreateResponse, error)
	ContainerExecAttach(ctx context.Context, execID string, o container.ExecAttachOptions) (types.HijackedResponse, error)
	ContainerExecInspect(ctx context.Context, execID string) (container.ExecInspect, error)
	ContainerExecResize(ctx context.Context, execID string, o container.ResizeOptions) error
	ContainerExecStart(ctx context.Context, execID string, o container.ExecStartOptions) error

	NetworkCreate(ctx context.Context, name string, o network.CreateOptions) (network.CreateResponse, error)
	NetworkConnect(ctx context.Context, id, containerID string, e *network.EndpointSettings) error
	NetworkDisconnect(ctx context.Context, id, containerID string, force bool) error
	NetworkInspect(ctx context.Context, id string, o network.InspectOptions) (network.Inspect, error)
	NetworkList(ctx context.Context, o network.ListOptions) ([]network.Summary, error)
	NetworkRemove(ctx context.Context, id string) error

	DistributionInspect(ctx context.Context, ref, encodedAuth string) (registry.DistributionInspect, error)
	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error)
	ImageLoad(ctx context.Context, r io.Reader, o ...client.ImageLoadOption) (image.LoadResponse, error)
	ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error)
	ImageRemove(ctx context.Context, ref string, o image.RemoveOptions) ([]image.DeleteResponse, error)
	ImageSave(ctx context.Context, refs []string, o ...client.ImageSaveOption) (io.ReadCloser, error)

	VolumeCreate(ctx context.Context, o volume.CreateOptions) (volume.Volume, error)
	VolumeList(ctx context.Context, o volume.ListOptions) (volume.ListResponse, error)
	VolumeInspect(ctx context.Context, name string) (volume.Volume, error)
	VolumeRemove(ctx context.Context, name string, force bool) error

	Close() error
}

var _ api = (*client.Client)(nil)
