package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// filesFolder is the part of a run directory that a sandbox sees.
const filesFolder = "files"

// CreateSandbox makes a run's network, sidecar and agent. It returns when the
// sidecar is ready; the agent of a task is then created and not yet started,
// an idle sandbox (no task) runs. On an error nothing is left. Leftovers of an
// earlier attempt under the same run id are removed first.
func (r *Runner) CreateSandbox(ctx context.Context, spec runner.SandboxSpec) (runner.Sandbox, error) {
	return r.create(ctx, spec, spec.Task == nil)
}

// create makes a sandbox, and with started also has its main process run when
// it returns.
func (r *Runner) create(ctx context.Context, spec runner.SandboxSpec, started bool) (runner.Sandbox, error) {
	ctx, end, err := r.making.begin(ctx, spec.RunID)
	if err != nil {
		return runner.Sandbox{}, err
	}
	defer end()
	p, err := r.prepare(ctx, spec)
	b := &build{Runner: r, plan: p, steps: r.steps(spec.RunID), started: started, joined: make(chan struct{})}
	defer b.releaseImage()
	if err != nil {
		return runner.Sandbox{}, fmt.Errorf("create sandbox: %w", err)
	}
	select {
	case r.starts <- struct{}{}:
		defer func() { <-r.starts }()
	case <-ctx.Done():
		return runner.Sandbox{}, fmt.Errorf("create sandbox: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	ref := AgentName(spec.RunID)
	if err := b.run(ctx); err != nil {
		r.use.forget(ref)
		return runner.Sandbox{}, errors.Join(fmt.Errorf("create sandbox: %w", err), b.rollback())
	}
	return runner.Sandbox{Ref: ref, Driver: r.Name(), EnforcedClass: p.class}, nil
}

// build is one creation under way. undo holds what to take away again, oldest
// first; a step is put there before the thing it removes is asked for, since an
// engine call that failed may have succeeded all the same.
type build struct {
	*Runner
	plan
	steps   runSteps
	undo    []step
	started bool // the main process is to run

	net    *runNetwork
	joined chan struct{} // closed when the sidecar is on the run's network
	slot   *slot         // nil: the network is the run's own
	files  string
	agent  string // container id
}

func (b *build) onUndo(s step) { b.undo = append(b.undo, s) }

// rollback undoes what was begun, on a context of its own: the caller's may be
// the reason for it.
func (b *build) rollback() error {
	ctx, cancel := undo()
	defer cancel()
	err := unwind(ctx, b.undo)
	if err != nil {
		err = fmt.Errorf("undo: %w", err)
		b.opts.Log.Error("a sandbox could not be undone", "run_id", b.spec.RunID, "error", err)
	}
	return err
}

func (b *build) run(ctx context.Context) error {
	if err := b.clearLeftovers(ctx); err != nil {
		return err
	}
	b.onUndo(b.steps.record)
	if err := b.saveRecord(nil); err != nil {
		return err
	}
	if b.networked() {
		if err := b.takeNetwork(ctx); err != nil {
			return err
		}
	}
	b.onUndo(b.steps.folder)
	if err := b.makeFiles(); err != nil {
		return err
	}
	if err := b.makeContainers(ctx); err != nil {
		return err
	}
	return b.openGate()
}

// makeContainers makes sidecar and agent side by side: what takes long about
// either is the engine's starting it. An agent that starts waits at its gate.
func (b *build) makeContainers(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	if b.networked() {
		b.onUndo(b.steps.control)
		b.onUndo(b.steps.sidecar)
		both.Go(func() error {
			if b.slot != nil {
				return b.assignSidecar(ctx)
			}
			return b.makeSidecar(ctx)
		})
	}
	b.onUndo(b.steps.agent)
	both.Go(func() error {
		if err := b.makeAgent(ctx); err != nil {
			return err
		}
		if t := b.spec.Task; t != nil {
			b.use.sinks.put(AgentName(b.spec.RunID), t.Output)
		}
		if !b.started {
			return nil
		}
		if err := b.awaitJoined(ctx); err != nil {
			return err
		}
		return explained(b.startMain(ctx, AgentName(b.spec.RunID), b.spec.Task != nil && b.spec.Task.TTY), askedBy(b.spec), startWords)
	})
	return both.Wait()
}

// awaitJoined returns when the agent may join the run's network (startSidecar).
// A slot's network has its members already.
func (b *build) awaitJoined(ctx context.Context) error {
	if !b.networked() || b.slot != nil {
		return nil
	}
	select {
	case <-b.joined:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start the sandbox: %w", ctx.Err())
	}
}

// clearLeftovers removes what an earlier attempt under this run id left.
func (b *build) clearLeftovers(ctx context.Context) error {
	if err := b.teardown(ctx, b.spec.RunID); err != nil {
		return fmt.Errorf("leftovers of an earlier attempt: %w", err)
	}
	return nil
}

// saveRecord writes down what is needed to take the run down again.
func (b *build) saveRecord(n *runNetwork) error {
	rec := datadir.Record{
		RunID: b.spec.RunID, CreatedAt: time.Now().UTC(), Image: b.spec.Image,
		Class: string(b.class), Runtime: b.runtime, Labels: b.spec.Labels,
	}
	if n != nil {
		rec.NetworkID, rec.Subnet = n.ID, n.Plan.Subnet.String()
	}
	return b.opts.Dir.SaveRecord(rec)
}

// makeFiles writes what the sandbox reads instead of asking a resolver.
func (b *build) makeFiles() error {
	dir, err := b.opts.Dir.MakeRunDir(b.spec.RunID, filesFolder)
	if err != nil {
		return err
	}
	b.files = filepath.Join(dir, filesFolder)
	hostname := agentHostname
	if t := b.spec.Task; t != nil {
		hostname = firstOf(t.Hostname, hostname)
	}
	resolv, hosts := runFiles(hostname, b.net)
	for name, text := range map[string]string{resolvFile: resolv, hostsFile: hosts} {
		// Readable by the task's user, whoever that is; the folder is closed.
		if err := os.WriteFile(filepath.Join(b.files, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	var stages []runner.Stage
	if t := b.spec.Task; t != nil {
		stages = t.Stages
	}
	return makeOwn(filepath.Join(b.files, ownFolder), stages)
}

// makeAgent creates the agent's container. An image that vanished since it was
// looked at is fetched again, once.
func (b *build) makeAgent(ctx context.Context) error {
	run := b.spec.RunID
	name := AgentName(run)
	labels := b.reservedOf(name, componentAgent, run, b.class)
	labels[labelImage] = b.spec.Image
	in := agentInput{
		Spec: b.spec, Class: b.class, Runtime: b.runtime, Image: b.image, Host: b.host,
		Net: b.net, Recorder: b.record, Files: b.files, Labels: labels, Seccomp: b.seccomp,
	}
	if b.slot != nil {
		in.Holder = b.slot.Holder
		labels[labelSlot] = b.slot.ID.String()
	}
	cfg, err := agentConfig(in)
	if err != nil {
		return invalid([]error{err})
	}
	b.agent, err = b.createContainer(ctx, name, cfg)
	if isNoSuchImage(err) {
		if err := b.withImage(ctx, &b.plan); err != nil {
			return err
		}
		in.Image = b.image
		if cfg, err = agentConfig(in); err != nil {
			return invalid([]error{err})
		}
		b.agent, err = b.createContainer(ctx, name, cfg)
	}
	if err != nil {
		return explained(err, askedBy(b.spec), startWords)
	}
	return b.openVolumes(ctx)
}
