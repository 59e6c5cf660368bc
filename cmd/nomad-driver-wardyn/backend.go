package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/embedded"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/internal/otlp"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker/regauth"
)

// parts are the pieces of one installation on this node, put together.
type parts struct {
	dir     *datadir.Dir
	control *control.Server
	runner  *docker.Runner
	keeper  *keeper.Client
	audit   *control.Audit // nil without an audit_dir
	export  *otlp.Exporter // nil without a collector
}

// close lets go of everything that this process has of an installation. What is
// on the engine stays.
func (p *parts) close() error {
	p.keeper.Close()
	p.control.Shutdown()
	return errors.Join(p.runner.Close(), p.closeCopies())
}

// assemble makes the parts of an installation. It talks to nobody yet.
func assemble(h plugin.HostConfig, log *slog.Logger) (*parts, error) {
	return assembleWith(h, log, func(d *datadir.Dir) string { return d.Shared("verdicts") })
}

// assembleWith is assemble with a folder of verdicts other than the node's.
func assembleWith(h plugin.HostConfig, log *slog.Logger, verdicts func(*datadir.Dir) string) (*parts, error) {
	dir, err := datadir.Open(h.DataDir)
	if err != nil {
		return nil, err
	}
	p := &parts{dir: dir}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ext, err := newExternal(h.ControlPlane, log)
	if err != nil {
		return nil, err
	}
	copies, err := p.copies(h, log)
	if err != nil {
		return nil, err
	}
	p.control = control.New(control.Options{Dir: dir, Node: node(h, log), Own: ownAddresses, External: ext, Copies: copies, MaxJournal: h.DecisionLogMiB << 20, Log: log})
	p.runner, err = docker.New(docker.Options{
		Endpoint: h.Endpoint, Dir: dir, Control: p.control, Log: log,
		Tools:      embedded.New(dir.Path("bin")),
		SubnetPool: h.SubnetPool, EgressPool: h.EgressPool, Runtimes: h.Runtimes,
		Images: imageOptions(h.Images),
		Max:    limits(h), PoolSize: h.PoolSize,
		SharedVerdicts: verdicts(dir),
	})
	if err != nil {
		return nil, errors.Join(err, p.closeCopies())
	}
	socket := filepath.Join(dir.RunRoot(), "keeper.sock")
	p.keeper = &keeper.Client{
		Socket: socket, Command: []string{self, "keeper", "-socket", socket},
		Holder: []string{self, "holder", "-socket", keeper.HolderSocket(socket)},
		Spool:  dir.Path(), Log: log,
	}
	return p, nil
}

func imageOptions(r plugin.ImageRules) docker.ImageOptions {
	return docker.ImageOptions{
		Auth:        regauth.Source{File: r.AuthFile, Helper: r.AuthHelper},
		PullTimeout: r.PullTimeout, PullActivity: r.PullActivity,
		TrustPresent: r.TrustPresent, KeepUnused: r.KeepUnused, Keep: r.Prepull,
	}
}

// build makes the plugin's backend.
func build(_ context.Context, h plugin.HostConfig, log *slog.Logger) (*plugin.Backend, error) {
	p, err := assemble(h, log)
	if err != nil {
		return nil, err
	}
	stage, parked := p.stageRoot(), p.parkDir()
	for _, folder := range []string{stage, parked} {
		if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(err, p.close())
		}
	}
	return &plugin.Backend{
		Driver:    driver.NewDocker(p.runner, driver.DockerOpts{TotalSlots: slots(h)}),
		Runner:    p.runner,
		Control:   p.control,
		Outputs:   p.keeper,
		Ref:       refOf,
		RunDir:    p.dir.RunDir,
		StageRoot: stage,
		ParkDir:   parked,
		Denied:    p.runner.Denied,
		Claim:     p.dir.Claim(),
		// Another plugin may be at work until the claim is taken.
		Begin: func() error {
			if err := p.beginCopies(); err != nil {
				return err
			}
			p.runner.KeepPool()
			return p.control.ServeCtl(filepath.Join(p.dir.RunRoot(), control.CtlSocket))
		},
		TrimSetups: func(ctx context.Context) error {
			return p.runner.TrimSetupImages(ctx, h.Setups.MaxBytes, h.Setups.MaxAge)
		},
		Close: p.close,
	}, nil
}

// refOf is the ref, and the driver's id, of a run's sandbox.
func refOf(run uuid.UUID) string { return docker.AgentName(run) }

// stageRoot is where mount sources named by jobs are bound. It is no part of a
// run's directory, which is removed with all that is in it.
func (p *parts) stageRoot() string { return filepath.Join(p.dir.RunRoot(), "stage") }

// parkDir has the marks of parked tasks, on disk: they tell of a reboot.
func (p *parts) parkDir() string { return p.dir.Path("parked") }

// slots is the capacity of the node: what the operator says, else one for each
// network of the pool.
func slots(h plugin.HostConfig) int {
	if h.Slots > 0 {
		return h.Slots
	}
	bits := 16
	if h.SubnetPool.IsValid() {
		bits = h.SubnetPool.Bits()
	}
	return 1 << (29 - bits)
}
