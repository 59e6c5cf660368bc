package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
)

// writers are a task's two streams, the same for all its runs.
func (r *run) writers(task string) [2]*lineWriter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.streams[task]
	if !ok {
		w = [2]*lineWriter{r.out.stdout(task), r.out.stderr(task)}
		r.streams[task] = w
	}
	return w
}

// flushing prints an unfinished last line when a process is over.
type flushing struct {
	supervise.Process
	streams [2]*lineWriter
}

func (f flushing) Wait(ctx context.Context) (supervise.Exit, error) {
	exit, err := f.Process.Wait(ctx)
	for _, w := range f.streams {
		w.Flush()
	}
	return exit, err
}

// decisions prints the egress decisions of all tasks.
func (r *run) decisions() error {
	if !r.options.decisions {
		return nil
	}
	var errs []error
	for _, t := range r.group.Tasks {
		dir := r.back.taskDir(t.Name)
		if dir == "" {
			continue
		}
		switch {
		case !hasDecisions(dir):
			r.out.event(t.Name, "Decisions: none, the task made no request")
		case r.options.keep:
			r.out.event(t.Name, "Decisions, kept in %s:", filepath.Join(dir, decisionDir, decisionFiles[len(decisionFiles)-1]))
		default: // the files are about to go
			r.out.event(t.Name, "Decisions:")
		}
		errs = append(errs, printDecisions(r.env.Stdout, dir, r.options.json))
	}
	return errors.Join(errs...)
}
