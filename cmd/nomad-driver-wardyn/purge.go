package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
)

// purge ends what an installation has on this machine: sandboxes that are still
// there, what their jobs had mounted, the egress network, the keeper and the
// run root. The data dir stays. With kept, what outlives tasks goes too.
func purge(ctx context.Context, config map[string]any, kept bool) error {
	h, err := toPurge(config)
	if err != nil {
		return err
	}
	return purgeInstallation(ctx, h, kept)
}

// toPurge are the options of an installation that exists.
func toPurge(config map[string]any) (plugin.HostConfig, error) {
	h, err := plugin.ParseHostConfig(config)
	if err != nil {
		return h, err
	}
	return h, checkInstalled(h)
}

// purgeable lists what purge would remove of runs and, with kept, of what
// outlives them, and what it would not.
func purgeable(ctx context.Context, config map[string]any, withKept bool) ([]string, error) {
	h, err := toPurge(config)
	if err != nil {
		return nil, err
	}
	p, err := assemble(h, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer p.runner.Close()
	found, err := p.runner.Traces(ctx)
	var out []string
	for _, t := range found.Runs {
		out = append(out, fmt.Sprintf("remove %s (%s)", t.Ref, strings.Join(t.Parts, ", ")))
	}
	for _, s := range found.Strangers {
		out = append(out, "leave "+s+": it carries this installation's label and is not its own")
	}
	if errors.Is(err, runner.ErrUnavailable) { // every further question would say the same
		return out, err
	}
	shared, sharedErr := p.runner.Belongings(ctx)
	for _, s := range append(shared, p.onNode()...) {
		out = append(out, "remove "+s)
	}
	if !withKept {
		return out, errors.Join(err, sharedErr)
	}
	lines, keptErr := kept{p}.removable(ctx)
	return append(out, lines...), errors.Join(err, sharedErr, keptErr)
}

// onNode lists what an installation has beside the engine and its runs, except
// for the data dir.
func (p *parts) onNode() []string {
	var out []string
	for _, it := range []struct{ path, what string }{
		{p.keeper.Socket, "the output keeper"}, {keeper.HolderSocket(p.keeper.Socket), "the holder beside the output keeper"},
		{filepath.Join(p.dir.RunRoot(), control.CtlSocket), "the socket of ctl"}, {p.stageRoot(), "what jobs have mounted"},
	} {
		if _, err := os.Lstat(it.path); err == nil {
			out = append(out, fmt.Sprintf("%s (%s)", it.path, it.what))
		}
	}
	// An empty one may be there because somebody looked, as this does.
	if root := p.dir.RunRoot(); hasEntries(root) {
		out = append(out, root+" (the run root)")
	}
	return out
}

// hasEntries reports whether a folder is there and has something in it.
func hasEntries(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

func purgeInstallation(ctx context.Context, h plugin.HostConfig, kept bool) error {
	p, err := assemble(h, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer p.runner.Close()
	refs, err := p.runRefs(ctx)
	if errors.Is(err, runner.ErrUnavailable) { // every further question would say the same
		return errors.Join(fmt.Errorf("%w, so nothing of it could be removed: %w", cli.ErrEngineAway, err),
			p.unstage(), p.endKeeper(ctx), p.endCtl(), p.dir.RemoveRunRoot())
	}
	errs := []error{err, p.endRuns(ctx, refs), p.settleCommits(ctx)}
	if kept {
		errs = append(errs, p.removeKept(ctx))
	}
	errs = append(errs, p.runner.RemoveProbes(ctx), p.runner.RemovePool(ctx), p.runner.RemoveEgressNetwork(ctx), p.unstage(), p.endKeeper(ctx), p.endCtl(), p.dir.RemoveRunRoot(), p.runner.RemoveToolImage(ctx))
	return errors.Join(errs...)
}

// runRefs are the refs of all runs, also of those of which only a part is left
// after a crash in the middle.
func (p *parts) runRefs(ctx context.Context) ([]string, error) {
	left, err := p.runner.ListSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	var refs []string
	for _, s := range left {
		refs = append(refs, s.Ref)
	}
	parts, err := p.runner.Traces(ctx)
	for _, t := range parts.Runs {
		refs = append(refs, t.Ref)
	}
	slices.Sort(refs)
	return slices.Compact(refs), err
}

// endRuns takes runs down, and then again what of them came about late.
func (p *parts) endRuns(ctx context.Context, refs []string) error {
	if len(refs) == 0 {
		return nil
	}
	errs := []error{p.killAll(ctx, refs)}
	select {
	case <-time.After(docker.Late):
	case <-ctx.Done():
	}
	return errors.Join(append(errs, p.killAll(ctx, refs))...)
}

// commitsTimeout bounds how long an engine is waited for that has an image to
// make which nobody waits for.
const commitsTimeout = time.Minute

func (p *parts) settleCommits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitsTimeout)
	defer cancel()
	return p.runner.SettleCommits(ctx)
}

func (p *parts) killAll(ctx context.Context, refs []string) error {
	var errs []error
	for _, ref := range refs {
		errs = append(errs, p.runner.KillSandbox(ctx, ref))
	}
	return errors.Join(errs...)
}

// endKeeper drops what the keeper still holds and ends it: output that nobody
// reads, since the agent that would is gone, must not keep it.
func (p *parts) endKeeper(ctx context.Context) error {
	ids, err := p.keeper.IDs(ctx)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, p.keeper.Finish(ctx, keeper.Task{ID: id}, 0))
	}
	return errors.Join(append(errs, p.keeper.Quit(ctx))...)
}

// endCtl removes the socket that the last plugin left for people on the node.
func (p *parts) endCtl() error {
	err := os.Remove(filepath.Join(p.dir.RunRoot(), control.CtlSocket))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unstage takes away what is still bound for jobs. The folder of one run is
// never removed with what is below it: that would be the job's own files.
func (p *parts) unstage() error {
	root := p.stageRoot()
	runs, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	var errs []error
	for _, r := range runs {
		errs = append(errs, taskpath.Unstage(filepath.Join(root, r.Name())))
	}
	return errors.Join(append(errs, os.Remove(root))...)
}
