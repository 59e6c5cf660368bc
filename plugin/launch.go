package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// planWithin is plan with a deadline.
func (p *Plugin) planWithin(ctx context.Context, b *Backend, tc *driverpb.TaskConfig) (plan, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.plan(ctx, b, tc)
}

// plan judges and translates a task. Nothing is done yet.
func (p *Plugin) plan(ctx context.Context, b *Backend, tc *driverpb.TaskConfig) (plan, error) {
	var c TaskConfig
	if err := msgpack.Decode(tc.GetMsgpackDriverConfig(), &c); err != nil {
		return plan{}, fmt.Errorf("task %q: %w: %w", tc.GetName(), runner.ErrInvalid, err)
	}
	p.health.start(p.life)
	found, err := p.health.ready(ctx, enoughFor(c))
	if err != nil {
		return plan{}, err
	}
	host, comp := p.options()
	return planTask(tc, c, host, factsNow(ctx, b, tc, found, comp))
}

// factsNow is what the node knows as a task is planned.
func factsNow(ctx context.Context, b *Backend, tc *driverpb.TaskConfig, found finding, comp compute) facts {
	dirs := taskpath.Dirs{Alloc: tc.GetAllocDir(), Name: tc.GetName()}
	fx := facts{
		CPUs: runtime.NumCPU(), TotalMHz: comp.MHz, MemoryMiB: memoryMiB(),
		StageDir: stageDir(b, RunID(TaskID(tc.GetId())).String()),
		Sockets:  sockets(dirs),
		CheckHost: func(path string) error {
			return runner.ValidateMountSourceBeside(path, append(b.denied(ctx), filepath.Dir(tc.GetAllocDir())))
		},
		Secrets: holdsFiles(dirs.Secrets()),
		Why:     map[types.ConfinementClass]string{},
		Read:    func(s taskpath.Source) ([]byte, error) { return dirs.Read(s, driver.MaxSetupBytes) },
	}
	for _, cf := range found.Classes {
		if class := types.ConfinementClass(cf.Class); cf.Works {
			fx.Classes = append(fx.Classes, class)
		} else {
			fx.Why[class] = cf.Reason
		}
	}
	return fx
}

// enoughFor tells whether a finding says enough to choose a task's class: the
// one it names works, or there is nothing more to be found out.
func enoughFor(c TaskConfig) func(finding) bool {
	return func(f finding) bool {
		return !f.Pending || slices.ContainsFunc(f.Classes, func(cf runner.ClassFinding) bool {
			return cf.Works && (cf.Class == c.Confinement || c.Runtime == "runsc" && cf.Class == string(types.CC2))
		})
	}
}

func stageDir(b *Backend, run string) string { return filepath.Join(b.StageRoot, run) }

// sockets finds what in a task's folders would answer a connect, by the path
// it has in the sandbox: a connect needs no network.
func sockets(d taskpath.Dirs) []string {
	var out []string
	for dir, inside := range map[string]string{d.Secrets(): "/secrets", filepath.Join(d.Shared(), "tmp"): "/alloc/tmp"} {
		for _, e := range entries(dir) {
			if e.Type()&os.ModeSocket != 0 {
				out = append(out, path.Join(inside, e.Name()))
			}
		}
	}
	slices.Sort(out)
	return out
}

// entries lists a folder. What is not there has nothing in it.
func entries(dir string) []os.DirEntry {
	list, _ := os.ReadDir(dir)
	return list
}

// mountMarker is what a Nomad client leaves in a secrets folder that it mounted.
const mountMarker = ".nomad-mount"

// holdsFiles reports whether a folder has anything in it that was put there for
// the task: sockets and Nomad's own marker were not.
func holdsFiles(dir string) bool {
	return slices.ContainsFunc(entries(dir), func(e os.DirEntry) bool {
		return e.Type()&os.ModeSocket == 0 && e.Name() != mountMarker
	})
}

// launch makes what the plan says and looks after it from then on. On an error
// nothing is left.
func (p *Plugin) launch(ctx context.Context, b *Backend, tc *driverpb.TaskConfig, pl plan) (_ *task, err error) {
	ref := b.Ref(pl.Run)
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
	p.listen(t)
	if err := checkSecrets(t.credentials); err != nil {
		return nil, err
	}
	host, _ := p.options()
	if err := errors.Join(trustOwnCA(&pl.Spec.Sandbox), leaveThrough(&pl.Spec.Sandbox, host)); err != nil {
		return nil, err
	}
	dirs := taskpath.Dirs{Alloc: tc.GetAllocDir(), Name: tc.GetName()}
	if _, err := dirs.MakeOwn(); err != nil {
		return nil, fmt.Errorf("%w: %w", runner.ErrDenied, err)
	}
	if t.ports, err = ports.Open(pl.Ports); err != nil {
		return nil, err
	}
	undo.add(func(context.Context) error { t.ports.Close(); return nil })
	stage := stageDir(b, pl.Run.String())
	undo.add(func(context.Context) error { return taskpath.Unstage(stage) })
	if err := stageMounts(dirs, stage, pl.Stage); err != nil {
		return nil, err
	}
	undo.add(func(context.Context) error { return b.Control.Forget(pl.Run) })
	if err := b.Control.Prepare(t.control()); err != nil {
		return nil, err
	}
	undo.add(func(ctx context.Context) error { return b.Outputs.Finish(ctx, t.output, 0) })
	pl.Spec.Sandbox.Task.Output = b.Outputs.Sink(t.output)
	src := &pl.Spec.Sandbox.Task.Image
	src.Notify = func(m string) { p.events.emit(tc, m) }
	if pl.Load != nil {
		archive, err := dirs.OpenFile(*pl.Load)
		if err != nil {
			return nil, fmt.Errorf("load: %w: %w", runner.ErrInvalid, err)
		}
		defer archive.Close()
		src.Archive = archive
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
	p.watchNew(b, t, pl)
	return t, nil
}

// watchNew puts a started task under this process's care.
func (p *Plugin) watchNew(b *Backend, t *task, pl plan) {
	p.tasks.put(t)
	go p.carry(b, t, false)
	go p.watch(b, t)
	go p.keepSidecar(b, t)
	go p.keepDisk(b, t, diskEvery)
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
		Stages:  stageNames(pl.Spec, pl.Setup != nil),
		DiskMiB: pl.Spec.Sandbox.Resources.DiskMiB,
		Version: stateVersion, Run: pl.Run, Ref: ref, Session: pl.Spec.SessionID,
		Class: pl.Spec.Sandbox.ConfinementClass, Image: pl.Spec.Image, TTY: pl.Spec.Sandbox.Task.TTY,
		Started: time.Now().UTC(), Allow: policy.AllowedDomains, Deny: policy.DeniedDomains,
		Methods: policy.AllowedMethods, AllowAll: policy.AllowAllEgress, FirstUse: string(policy.FirstUseApproval),
		Sources: pl.Sources, Ports: pl.Ports, Learn: pl.Learn,
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
			return fmt.Errorf("volumes: %w: %w", runner.ErrInvalid, err)
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
