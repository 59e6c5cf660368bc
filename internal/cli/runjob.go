package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/identity"
	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// run is one call of the command.
type run struct {
	env     Env
	options runOptions
	given   jobfile.Options // what the job file is read with
	job     *jobfile.Job
	group   jobfile.Group
	config  map[string]any // the plugin's options
	out     *printer
	back    backend // set by launch
	checks  *checking
	issuer  *identity.Issuer

	mu      sync.Mutex
	streams map[string][2]*lineWriter // stdout and stderr by task
}

// runJob does what run is for and returns the exit code.
func runJob(ctx context.Context, e Env, o runOptions, launch launcher) (code int, err error) {
	r := &run{env: e, options: o, streams: map[string][2]*lineWriter{}}
	if r.given, err = o.given.options(e); err != nil {
		return exitFailed, err
	}
	r.given.Values = o.values.values(e)
	if r.job, r.group, err = loadGroup(o, r.given); err != nil {
		return exitFailed, err
	}
	if r.config, err = loadPluginConfig(o.pluginConfig); err != nil {
		return exitFailed, err
	}
	place, err := place(r.job, r.group, host.LocalNode())
	if err != nil {
		return exitFailed, err
	}
	r.out = newPrinter(e.Stdout, e.Stderr, r.names())
	r.notes()
	if r.issuer, err = r.identities(place); err != nil {
		return exitFailed, err
	}

	work, err := r.workspace(place)
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, work.remove(ctx, e, r.config, err), work.dismiss()) }()

	launching, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range place.ports {
		r.out.event("", "%s", portText(p))
	}
	group := supervise.New(ctx, supervise.Options{
		Tasks: r.group.Tasks, Batch: r.job.Batch(), Start: r.start,
		Recoverable: host.IsRecoverable,
		Event:       func(task, text string) { r.out.event(task, "%s", text) },
	})
	r.checks = &checking{run: r, place: place, group: group}
	r.out.onBroken(func() {
		cancel()
		group.Stop("Stopping, because nobody reads the output any more")
	})
	defer r.obey(group, cancel)()
	if err := r.launch(launching, launch, work, place); err != nil {
		return exitFailed, err
	}
	renewed := r.renewIdentities(ctx, group)
	r.checks.ofGroup()
	code = r.follow(ctx, group)
	r.checks.end()
	renewed()
	return code, errors.Join(r.decisions(), r.finish())
}

// launch sets the backend. An interrupt ends ctx, and then there is none.
func (r *run) launch(ctx context.Context, launch launcher, work *workspace, place *placement) error {
	var log tail
	s := launchSpec{
		executable: r.env.Executable, config: r.config, temp: work.temp, allocRoot: work.alloc,
		longestKill: r.options.longestKill, placement: place, nomadVars: r.given.NomadVars, identities: r.issuer, out: r.out,
		log: &log, logLevel: "debug",
	}
	if r.options.logLevel != "" {
		s.log, s.logLevel = r.env.Stderr, r.options.logLevel
	}
	back, err := launch(ctx, s)
	if ctx.Err() != nil {
		err = nil // it says at best that ctx has ended, at worst that an interrupted plugin is none
		if back != nil {
			err = back.close(false)
		}
		return errors.Join(errors.New("interrupted before anything was started"), err)
	}
	var broke *host.Breach
	if last := log.String(); errors.As(err, &broke) && last != "" { // it did not get so far as to explain itself
		return fmt.Errorf("%w\nThe last lines of the plugin's log:%s", err, last)
	}
	r.back = back
	return err
}

// loadGroup reads the job file and picks the group to run.
func loadGroup(o runOptions, given jobfile.Options) (*jobfile.Job, jobfile.Group, error) {
	job, err := jobfile.ParseFile(o.job, given)
	if err != nil {
		return nil, jobfile.Group{}, err
	}
	var names []string
	for _, g := range job.Groups {
		names = append(names, g.Name)
		if g.Name != o.group && (o.group != "" || len(job.Groups) > 1) {
			continue
		}
		for _, t := range g.Tasks {
			if t.Name == o.exec || o.exec == "" {
				return job, g, nil
			}
		}
		return nil, jobfile.Group{}, fmt.Errorf("-exec %s: group %q has no such task", o.exec, g.Name)
	}
	if o.group != "" {
		return nil, jobfile.Group{}, fmt.Errorf("-group %s: the job has %s", o.group, strings.Join(names, ", "))
	}
	return nil, jobfile.Group{}, fmt.Errorf("the job has the groups %s; run takes one of them: -group NAME", strings.Join(names, ", "))
}

// names are all that lines of output begin with.
func (r *run) names() []string {
	var names []string
	for _, t := range r.group.Tasks {
		names = append(names, t.Name)
	}
	if r.options.exec != "" {
		names = append(names, execName(r.options.exec))
	}
	return names
}

func execName(task string) string { return task + " exec" }

// notes tells what of the job file has no effect here.
func (r *run) notes() {
	for _, n := range r.job.Ignored {
		r.out.event("", "%s", n)
	}
	for _, t := range r.group.Tasks {
		if longest := cmp.Or(r.options.longestKill, clientsLongestKill); t.KillTimeout > longest {
			r.out.event("", "%s: task %q: kill_timeout = %s is cut to %s; -max-kill-timeout allows more, and max_kill_timeout on a client", t.Pos, t.Name, t.KillTimeout, longest)
		}
	}
}

// obey makes interrupts stop the run, and kill it from the second on. The
// function it returns ends that.
func (r *run) obey(group *supervise.Group, cancelLaunch func()) (end func()) {
	over := make(chan struct{})
	interrupts := r.env.Interrupts()
	var watch sync.WaitGroup
	watch.Go(func() {
		stopping := false
		for {
			select {
			case <-over:
				return
			case s := <-interrupts:
				if s == syscall.SIGPIPE {
					continue // also of a socket; the printer notices what concerns the output
				}
				cancelLaunch()
				if stopping {
					r.out.event("", "Killing (%v)", s)
					group.Kill()
					continue
				}
				group.Stop(fmt.Sprintf("Stopping (%v); once more to kill", s))
				stopping = true
			}
		}
	})
	return func() {
		close(over)
		watch.Wait()
	}
}

// start is how the supervisor starts a task.
func (r *run) start(ctx context.Context, t jobfile.Task) (supervise.Process, error) {
	streams := r.writers(t.Name)
	p, err := r.back.start(ctx, t, streams[0], streams[1])
	if err != nil {
		return nil, err
	}
	return r.checks.ofTask(ctx, t, flushing{Process: p, streams: streams}), nil
}

// finish ends the plugin and removes the allocation.
func (r *run) finish() error {
	if r.options.keep {
		r.out.event("", "Kept: %s", r.back.allocDir())
	}
	if err := r.back.close(r.options.keep); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
