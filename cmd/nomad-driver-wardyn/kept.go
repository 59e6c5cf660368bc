package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/cli"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// kept is what an installation keeps, for the command line.
type kept struct{ *parts }

// openKept opens the installation with these plugin options.
func openKept(config map[string]any) (cli.Kept, error) {
	h, err := plugin.ParseHostConfig(config)
	if err != nil {
		return nil, err
	}
	if err := checkInstalled(h); err != nil {
		return nil, err
	}
	p, err := assemble(h, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return kept{p}, nil
}

func (k kept) Close() error { return k.runner.Close() }

func (k kept) List(ctx context.Context, kind cli.KeptKind) ([]cli.KeptItem, error) {
	if kind == cli.KeptImages {
		return k.images(ctx)
	}
	vols, err := k.runner.ListVolumes(ctx)
	if err != nil {
		return nil, err
	}
	var out []cli.KeptItem
	for _, v := range vols {
		it := cli.KeptItem{ID: v.Name, Bytes: v.Bytes, Created: v.Created, Users: v.Users}
		it.Kind, it.Namespace, it.Name = driver.KeptName(v.Name)
		if it.Namespace == "" {
			it.Namespace = v.Labels[driver.NamespaceLabel]
		}
		out = append(out, it)
	}
	return out, nil
}

func (k kept) Export(ctx context.Context, id string, w io.Writer) error {
	return k.runner.ExportVolume(ctx, id, w)
}

func (k kept) images(ctx context.Context) ([]cli.KeptItem, error) {
	all, err := k.runner.ListOwnImages(ctx)
	if err != nil {
		return nil, err
	}
	var out []cli.KeptItem
	for _, i := range all {
		it := cli.KeptItem{ID: i.Ref, Kind: "setup", Namespace: i.Labels[driver.NamespaceLabel], Bytes: i.Bytes, Created: i.Created, Used: i.Used, Users: i.Users}
		_, it.Name, _ = strings.Cut(i.Ref, ":")
		if rest, ok := strings.CutPrefix(i.Ref, driver.NamedSnapshot(it.Namespace, "")); ok {
			it.Kind, it.Name = "snapshot", rest
		}
		out = append(out, it)
	}
	return out, nil
}

func (k kept) Remove(ctx context.Context, kind cli.KeptKind, id string) error {
	if kind == cli.KeptImages {
		return k.runner.RemoveOwnImage(ctx, id)
	}
	return k.runner.RemoveVolume(ctx, id)
}

// removable says in a line each what removeKept would remove.
func (k kept) removable(ctx context.Context) ([]string, error) {
	var out []string
	var errs []error
	for _, kind := range []cli.KeptKind{cli.KeptVolumes, cli.KeptImages} {
		items, err := k.List(ctx, kind)
		errs = append(errs, err)
		for _, it := range items {
			out = append(out, fmt.Sprintf("remove %s (%s %s/%s)", it.ID, it.Kind, it.Namespace, it.Name))
		}
	}
	replaced, err := k.runner.Replaced(ctx, 0)
	for _, id := range replaced {
		out = append(out, fmt.Sprintf("remove %s (an image that was replaced)", id))
	}
	return out, errors.Join(append(errs, err)...)
}

// removeKept removes everything that outlives tasks.
func (p *parts) removeKept(ctx context.Context) error {
	vols, err := p.runner.ListVolumes(ctx)
	errs := []error{err}
	for _, v := range vols {
		errs = append(errs, p.runner.RemoveVolume(ctx, v.Name))
	}
	images, err := p.runner.ListOwnImages(ctx)
	errs = append(errs, err)
	for _, i := range images {
		errs = append(errs, p.runner.RemoveOwnImage(ctx, i.Ref))
	}
	errs = append(errs, p.runner.DropReplaced(ctx, 0))
	return errors.Join(errs...)
}
