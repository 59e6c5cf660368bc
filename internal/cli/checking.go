package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/checks"
	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// checking runs the checks of a group's services: the group's own as long as the
// group is to run, a task's and all scripts as long as their task does.
type checking struct {
	run     *run
	place   *placement
	group   *supervise.Group
	running sync.WaitGroup
}

// ofGroup begins the checks that need no task.
func (k *checking) ofGroup() {
	k.begin(k.group.Alive(), "", func(c jobfile.Check) bool { return c.Type != "script" }, k.run.group.Checks)
}

// ofTask begins the checks that a task has while it runs. The process it returns
// ends them with the task, or before the task is made to end.
func (k *checking) ofTask(ctx context.Context, t jobfile.Task, p supervise.Process) supervise.Process {
	ctx, leave := context.WithCancel(ctx)
	k.begin(ctx, t.Name, func(jobfile.Check) bool { return true }, t.Checks)
	k.begin(ctx, t.Name, func(c jobfile.Check) bool { return c.Type == "script" && c.Task == t.Name }, k.run.group.Checks)
	return checkedProcess{Process: p, leave: leave}
}

// end waits for the end of all checks.
func (k *checking) end() { k.running.Wait() }

// begin runs those of the checks that are wanted until ctx ends.
func (k *checking) begin(ctx context.Context, task string, wanted func(jobfile.Check) bool, all []jobfile.Check) {
	for _, c := range all {
		if !wanted(c) {
			continue
		}
		ready, err := k.ready(task, c)
		if err != nil {
			k.run.out.event(c.Task, "%s is not run: %v", called(c), err)
			continue
		}
		k.running.Go(func() { ready.Run(ctx) })
	}
}

// ready makes a check of one in a job file: references replaced, its port found.
func (k *checking) ready(task string, c jobfile.Check) (*checks.Check, error) {
	known := k.run.back.known(task)
	c = c.Map(func(text string) string { return taskenv.Interpolate(text, known) })
	if c.Service == "" {
		c.Service = strings.TrimSuffix(fmt.Sprintf("%s-%s-%s", k.run.job.Name, k.run.group.Name, task), "-")
	}
	ready := &checks.Check{
		Check: c,
		Exec: func(ctx context.Context, argv []string, timeout time.Duration) (int, string, error) {
			return k.run.back.check(ctx, task, argv, timeout)
		},
		Changed: func(s checks.Status, line string) {
			if line != "" {
				line = ": " + line
			}
			k.run.out.event(c.Task, "%s: %s%s", called(c), s, line)
		},
		Restart: func() { k.restart(c) },
	}
	if c.Type == "script" {
		return ready, nil
	}
	var err error
	ready.Address, err = k.place.address(c.Port)
	return ready, err
}

// restart restarts the task a check belongs to; of a group's own all of them, as
// a client does.
func (k *checking) restart(c jobfile.Check) {
	for _, t := range k.run.group.Tasks {
		if !c.OfTask || t.Name == c.Task {
			k.group.Restart(t.Name, called(c)+" has failed for too long", true)
		}
	}
}

// called is how events name a check.
func called(c jobfile.Check) string {
	if c.Name == "" {
		return fmt.Sprintf("Check of service %q", c.Service)
	}
	return fmt.Sprintf("Check %q", c.Name)
}

// checkedProcess is a task's process with checks beside it.
type checkedProcess struct {
	supervise.Process
	leave func()
}

func (p checkedProcess) Wait(ctx context.Context) (supervise.Exit, error) {
	defer p.leave()
	return p.Process.Wait(ctx)
}

func (p checkedProcess) Stop(ctx context.Context) error {
	p.leave()
	return p.Process.Stop(ctx)
}

func (p checkedProcess) Kill(ctx context.Context) error {
	p.leave()
	return p.Process.Kill(ctx)
}
