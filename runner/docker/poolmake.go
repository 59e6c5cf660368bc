package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
)

// controlFolder is the part of a run directory that its sidecar has mounted.
const controlFolder = "control"

// makeSlot makes one slot and enters it as available. On an error nothing of it
// is left.
func (r *Runner) makeSlot(ctx context.Context) error {
	id := uuid.New()
	if err := r.slots().add(id); err != nil {
		return err
	}
	err := r.fillSlot(ctx, id)
	if err == nil {
		return nil
	}
	uctx, cancel := undo()
	defer cancel()
	return errors.Join(fmt.Errorf("make slot %s: %w", id, err), r.removeSlot(uctx, id))
}

func (r *Runner) fillSlot(ctx context.Context, id uuid.UUID) error {
	host, err := r.facts(ctx)
	if err != nil {
		return err
	}
	s := slot{ID: id}
	if s.Tools, err = r.toolImage(ctx); err != nil {
		return err
	}
	gate, err := r.egressNetwork(ctx)
	if err != nil {
		return err
	}
	name := NetworkName(id)
	n, err := r.leaseNetwork(ctx, leaseOwner(id), name, func(p netpool.Plan) network.CreateOptions {
		return runNetworkOptions(p, host, r.reservedOfSlot(name, componentNetwork, id))
	})
	if err != nil {
		return err
	}
	s.NetworkID, s.Subnet = n.ID, n.Plan.Subnet
	folder, err := r.slotFolder(id)
	if err != nil {
		return err
	}
	both, made := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		name := ProxyName(id)
		s.Sidecar, err = r.createFromTools(made, name, sidecarConfig(sidecarInput{
			ImageID: s.Tools, Control: folder, Net: n, Host: host, Labels: r.reservedOfSlot(name, componentProxy, id),
		}))
		return err
	})
	both.Go(func() (err error) {
		name := HolderName(id)
		s.Holder, err = r.createFromTools(made, name, holderConfig(holderInput{
			ImageID: s.Tools, Net: n, Host: host, Labels: r.reservedOfSlot(name, componentHolder, id),
		}))
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	if err := r.startSlot(ctx, s, gate.ID, host); err != nil {
		return err
	}
	return r.slots().made(s)
}

// startSlot starts a slot's containers, one after the other (startSidecar).
func (r *Runner) startSlot(ctx context.Context, s slot, egressID string, host hostFacts) error {
	if err := r.startSidecar(ctx, s.Sidecar, egressID, host); err != nil {
		return err
	}
	c, cancel := call(ctx)
	defer cancel()
	return wrap("start the holder", r.api.ContainerStart(c, s.Holder, container.StartOptions{}))
}

// slotFolder makes the folder that the control socket of a slot's run will be
// in. The sidecar's user alone may enter it.
func (r *Runner) slotFolder(id uuid.UUID) (string, error) {
	dir, err := r.opts.Dir.MakeRunDir(id, controlFolder)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, controlFolder)
	return dir, os.Lchown(dir, sidecarUID, sidecarUID)
}

// removeSlot removes all of a slot that no run has, or whose run is gone.
func (r *Runner) removeSlot(ctx context.Context, id uuid.UUID) error {
	return unwind(ctx, []step{
		{"forget the slot", func(context.Context) error { return r.slots().drop(id) }, true},
		{"give the subnet back", func(context.Context) error { return r.runs.Release(leaseOwner(id)) }, true},
		{"remove the slot's folder", func(context.Context) error { return r.opts.Dir.RemoveRunDir(id) }, true},
		{"remove the network", func(ctx context.Context) error { return r.removeNetworks(ctx, NetworkName(id)) }, false},
		together("remove the containers",
			step{"remove the sidecar", func(ctx context.Context) error { return r.dropSidecar(ctx, id) }, false},
			step{"remove the holder", func(ctx context.Context) error { return r.removeOwned(ctx, HolderName(id)) }, false}),
	})
}

// reservedOfSlot are the reserved labels of one of a slot's objects.
func (r *Runner) reservedOfSlot(name, component string, id uuid.UUID) map[string]string {
	l := r.reserved(name, component)
	l[labelSlot] = id.String()
	return l
}
