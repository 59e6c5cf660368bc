package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/identity"
	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// identities makes what issues the group's workload identities, and writes its
// public keys where they were asked for. It is nil when there are none.
func (r *run) identities(p *placement) (*identity.Issuer, error) {
	wanted := r.options.jwks != ""
	for _, t := range p.group.Tasks {
		wanted = wanted || len(t.Identities) > 0
	}
	if !wanted {
		return nil, nil
	}
	issuer, err := identity.New(identity.Workload{
		Region: p.node.Region, Namespace: p.job.Namespace, Job: p.job.ID, Group: p.group.Name, Alloc: p.alloc,
	}, p.group.Tasks)
	if err != nil {
		return nil, err
	}
	if r.options.jwks == "" {
		r.out.event("", "Workload identities are signed with a key of this run's own, so nobody believes them who was not given its public half: -identity-jwks FILE")
		return issuer, nil
	}
	keys, err := issuer.KeySet()
	if err == nil {
		err = replaceFile(r.options.jwks, keys, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("-identity-jwks: %w", err)
	}
	r.out.event("", "Workload identities are signed with a key of this run's own; its public half is in %s", r.options.jwks)
	return issuer, nil
}

// tokenFiles are the files with tokens outside of the tasks' secrets, below the
// allocation's directory.
func tokenFiles(g jobfile.Group) []string {
	var out []string
	for _, t := range g.Tasks {
		for _, id := range t.Identities {
			file := path.Join(t.Name, id.File)
			if id.File != "" && path.Dir(file) != path.Join(t.Name, "secrets") {
				out = append(out, file, path.Join(path.Dir(file), identity.Unfinished(path.Base(file))))
			}
		}
	}
	return out
}

// removeTokens removes such files from an allocation that is kept. What a task
// has put in their place is its own, and stays.
func removeTokens(allocDir string, files []string) error {
	root, err := os.OpenRoot(allocDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, file := range files {
		if info, err := root.Lstat(file); err == nil && info.Mode().IsRegular() {
			errs = append(errs, root.Remove(file))
		}
	}
	return errors.Join(errs...)
}

// replaceFile writes a file in one step: nobody reads half of it.
func replaceFile(file string, text []byte, mode fs.FileMode) error {
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// tokens gives what a task that starts has of its identities in its
// environment.
func (b *pluginBackend) tokens(task string) func() map[string]string {
	return func() map[string]string {
		if b.spec.identities == nil {
			return nil
		}
		return b.spec.identities.Env(task)
	}
}

// identify writes the files with a task's identities before it starts.
func (b *pluginBackend) identify(t jobfile.Task, task *host.Task) error {
	if b.spec.identities == nil {
		return nil
	}
	return b.spec.identities.Begin(t.Name, identity.Place{Task: task.Dir().Dir, Shared: b.alloc.Dir().Shared, User: t.User})
}

// renewIdentities keeps the tokens of running tasks from ending. The function
// it returns ends that.
func (r *run) renewIdentities(ctx context.Context, group *supervise.Group) (end func()) {
	if r.issuer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		r.issuer.Renew(ctx, identity.Change{
			Renewed: func(ctx context.Context, task string, id jobfile.Identity) { r.renewed(ctx, group, task, id) },
			Failed:  func(task string, err error) { r.out.event(task, "%v", err) },
		})
	})
	return func() {
		cancel()
		renewal.Wait()
	}
}

// renewed does what a job wants to be done when a task has a new token.
func (r *run) renewed(ctx context.Context, group *supervise.Group, task string, id jobfile.Identity) {
	switch id.ChangeMode {
	case "restart":
		group.Restart(task, fmt.Sprintf("identity %q has a new token", id.Name), false)
	case "signal":
		err := r.back.signal(ctx, task, id.ChangeSignal)
		if err != nil && ctx.Err() == nil {
			group.Fail(task, fmt.Sprintf("identity %q has a new token, of which the task can't be told: %v", id.Name, err))
		}
	}
}
