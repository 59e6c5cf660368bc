package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// launch makes what the plan says and looks after it from then on. On an error
// nothing is left.
func (p *Plugin) launch(ctx context.Context, b *Backend, tc *driverpb.TaskConfig, pl plan) (_ *task, err error) {
	ref := b.Ref(pl.Run)
	if err := p.endForgotten(ctx, b, TaskID(tc.GetId()), pl.Spec.SessionID); err != nil {
		return nil, err
	}
	if err := p.clearLeftovers(ctx, b, pl.Spec.SessionID, ref); err != nil {
		return nil, err
	}
	undo := undoStack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.run())
		}
	}()
	t := newTask(p.life, b, tc, stateOf(pl, ref))
	undo.add(func(context.Context) error { t.stop(); return nil })
	if err := p.prepare(b, t, &pl, &undo); err != nil {
		return nil, err
	}
	if pl.Load != nil {
		archive, err := taskDirs(tc).OpenFile(*pl.Load)
		if err != nil {
			return nil, fmt.Errorf("load: %w: %w", runner.ErrInvalid, err)
		}
		defer archive.Close()
		pl.Spec.Sandbox.Task.Image.Archive = archive
	}
	if pl.Setup != nil {
		if started, err := p.setUp(ctx, b, t, &pl); err != nil || started {
			return t, err
		}
	}
	h, err := b.Driver.Create(ctx, pl.Spec)
	if err != nil {
		return nil, err
	}
	undo.add(func(ctx context.Context) error { return b.Driver.DestroyContainer(ctx, h.ID) })
	if h.ID != ref {
		return nil, fmt.Errorf("the driver names the sandbox %s, not %s", h.ID, ref)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // who asked for it is gone, and will ask anew under another id
	}
	p.watchNew(b, t, pl)
	return t, nil
}

// endForgotten takes down what this process still has of the session's earlier
// attempts. A client has one at a time; it forgets one when its agent is killed
// before the handle is written down, and nobody would ever end that.
func (p *Plugin) endForgotten(ctx context.Context, b *Backend, id TaskID, session string) error {
	for _, t := range p.tasks.attempts(session, id) {
		if _, ended := t.exit(); !ended {
			p.taskLog(t).Warn("an attempt that the client has forgotten still runs; it is ended", "next", id)
			p.killFirst(ctx, b, t)
		}
		err := p.takeDown(ctx, b, t.id, t)
		if _, ended := t.exit(); err != nil && !ended {
			return fmt.Errorf("end an earlier attempt, %s: %w", t.state.Ref, err)
		}
	}
	return nil
}

// prepare makes what a sandbox needs beside itself: the task's own folder, its
// ports, its staged mounts, its control socket and a place for its output.
func (p *Plugin) prepare(b *Backend, t *task, pl *plan, undo *undoStack) (err error) {
	p.listen(t)
	p.record(b, t)
	if err := checkSecrets(t.credentials); err != nil {
		return err
	}
	host, _ := p.options()
	if err := errors.Join(trustOwnCA(&pl.Spec.Sandbox), leaveThrough(&pl.Spec.Sandbox, host)); err != nil {
		return err
	}
	dirs := taskDirs(t.config)
	if _, err := dirs.MakeOwn(); err != nil {
		return fmt.Errorf("%w: %w", runner.ErrDenied, err)
	}
	if t.ports, err = ports.Open(pl.Ports); err != nil {
		return err
	}
	undo.add(func(context.Context) error { t.ports.Close(); return nil })
	stage := stageDir(b, pl.Run.String())
	undo.add(func(context.Context) error { return taskpath.Unstage(stage) })
	if err := stageMounts(dirs, stage, pl.Stage); err != nil {
		return err
	}
	undo.add(func(context.Context) error { return b.Control.Forget(pl.Run) })
	if err := b.Control.Prepare(t.control()); err != nil {
		return err
	}
	undo.add(func(ctx context.Context) error { return b.Outputs.Finish(ctx, t.output, 0) })
	pl.Spec.Sandbox.Task.Output = b.Outputs.Sink(t.output)
	src := &pl.Spec.Sandbox.Task.Image
	src.Notify = func(m string) { p.events.emit(t.config, m) }
	return nil
}

// watchNew puts a started task under this process's care.
func (p *Plugin) watchNew(b *Backend, t *task, pl plan) {
	p.tasks.put(t)
	go p.carry(b, t, false)
	go p.watch(b, t)
	go p.keepSidecar(b, t)
	go p.keepDisk(b, t, diskEvery)
	go p.keepCPUs(b, t, cpusEvery)
	go p.keepRecording(b, t)
	go p.tellDroppedMax(t)
	if err := b.saveSettings(t.state.Run, pl.Settings); err != nil {
		p.taskLog(t).Warn("after a restart of the agent nobody can be told what holds for the task", "error", err)
	}
	p.taskLog(t).Info("task started", "class", t.state.Class, "image", t.state.Image)
	p.events.emit(t.config, fmt.Sprintf("Sandbox %s started under %s", t.state.Ref, t.state.Class),
		"sandbox", t.state.Ref, "class", string(t.state.Class))
	for _, n := range pl.Notes {
		p.events.emit(t.config, n)
	}
}

// stateOf is what recovery will need of a planned task.
func stateOf(pl plan, ref string) state {
	policy := pl.Spec.Sandbox.ProxyConfig.Policy
	return state{
		Stages:     stageNames(pl.Spec, pl.Setup != nil),
		DiskMiB:    pl.Spec.Sandbox.Resources.DiskMiB,
		SharedCPUs: pl.SharedCPUs, CPUs: pl.CPUs,
		Version: stateVersion, Run: pl.Run, Ref: ref, Session: pl.Spec.SessionID,
		Class: pl.Spec.Sandbox.ConfinementClass, Image: pl.Spec.Image, TTY: pl.Spec.Sandbox.Task.TTY,
		Started: time.Now().UTC(), Allow: policy.AllowedDomains, Deny: policy.DeniedDomains,
		Methods: policy.AllowedMethods, AllowAll: policy.AllowAllEgress, FirstUse: string(policy.FirstUseApproval),
		Sources: pl.Sources, Ports: pl.Ports, Learn: pl.Learn, Record: pl.Record, Reported: pl.Reported,
	}
}

// clearLeftovers removes what earlier attempts of the task left: one of the
// same id, when a plugin died while it started it, and others that nobody
// looks after any more.
func (p *Plugin) clearLeftovers(ctx context.Context, b *Backend, session, ref string) error {
	listed, err := b.Driver.List(ctx)
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	for _, l := range listed {
		if l.SessionID != session && l.Handle.ID != ref || p.tasks.has(l.Handle.ID) {
			continue
		}
		p.log.Info("removing what an earlier attempt left", "session", session, "ref", l.Handle.ID)
		if err := b.Driver.DestroyContainer(ctx, l.Handle.ID); err != nil {
			return fmt.Errorf("remove leftover %s: %w", l.Handle.ID, err)
		}
	}
	return nil
}

// stageDir is where the mounts of a run are bound.
func stageDir(b *Backend, run string) string { return filepath.Join(b.StageRoot, run) }

// stageMounts opens what a job named and binds it where the plan says.
func stageMounts(d taskpath.Dirs, stage string, binds []bind) error {
	for _, dir := range []string{d.Shared(), d.Local()} {
		if err := taskpath.Check(dir); err != nil {
			return fmt.Errorf("task directory: %w: %w", runner.ErrDenied, err)
		}
	}
	if err := taskpath.Unstage(stage); err != nil {
		return err
	}
	for i, m := range binds {
		f, err := openBind(d, m)
		if err != nil {
			return fmt.Errorf("mount at %s: %w: %w%s", m.Target, runner.ErrInvalid, err, m.remedy(err))
		}
		_, err = taskpath.Stage(stage, strconv.Itoa(i), f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// openBind opens what a bind shows: a folder of the task's, which is made where
// the task is to write in it, or a place of the host's.
func openBind(d taskpath.Dirs, b bind) (*os.File, error) {
	if b.Host != "" {
		return taskpath.OpenHost(b.Host)
	}
	return d.Open(b.Source, !b.ReadOnly)
}

// remedy tells what there is to do about a source that is not there.
func (b bind) remedy(err error) string {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return ""
	case b.Host != "":
		return "; make it on the node, or remove the mount"
	default:
		return "; an artifact or template puts it there, and an empty folder is made where the mount is not read-only"
	}
}

// undoStack undoes what was done, the latest first.
type undoStack []func(context.Context) error

func (u *undoStack) add(f func(context.Context) error) { *u = append(*u, f) }

// run undoes on a context of its own: the one of what failed may be over.
func (u undoStack) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	var errs []error
	for i := len(u) - 1; i >= 0; i-- {
		errs = append(errs, u[i](ctx))
	}
	return errors.Join(errs...)
}
