package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// purge ends what an installation has on this machine beside its tasks: its
// egress network, its keeper, and what is still left of a run that could not
// be taken down in its time.
func purge(ctx context.Context, config map[string]any) error {
	h, err := plugin.ParseHostConfig(config)
	if err != nil {
		return err
	}
	p, err := assemble(h, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer p.runner.Close()
	var errs []error
	left, err := p.runner.ListSandboxes(ctx)
	errs = append(errs, err)
	for _, s := range left {
		errs = append(errs, p.runner.KillSandbox(ctx, s.Ref))
	}
	errs = append(errs, p.runner.RemoveEgressNetwork(ctx), p.keeper.Quit(ctx))
	if err := os.Remove(p.stageRoot()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
