package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// agents remembers the processes that Exec started in idle sandboxes, and the
// exit codes seen of them. The zero value is ready for use.
type agents struct {
	mu    sync.Mutex
	last  map[string]*process       // by ref; the latest start wins
	codes map[string]map[string]int // by ref and the engine's id
}

func (a *agents) add(ref string, p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = make(map[string]*process)
	}
	a.last[ref] = p
}

func (a *agents) latest(ref string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[ref]
}

func (a *agents) keep(ref, id string, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codes == nil {
		a.codes = make(map[string]map[string]int)
	}
	if a.codes[ref] == nil {
		a.codes[ref] = make(map[string]int)
	}
	a.codes[ref][id] = code
}

func (a *agents) seen(ref, id string) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	code, ok := a.codes[ref][id]
	return code, ok
}

func (a *agents) drop(ref string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, ref)
	delete(a.codes, ref)
}

// waitAgent waits for an agent. When its stream broke before it ended, the
// engine is asked until it knows.
func (r *Runner) waitAgent(ctx context.Context, ref string, p *process) (int, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if p.err == nil || p.over {
		return p.code, p.err
	}
	var pause backoff
	for {
		st, err := r.AgentStatus(ctx, ref, p.exec)
		switch {
		case err == nil && st.ExitCode != nil:
			return *st.ExitCode, nil
		case err == nil && st.State.Terminal():
			return 0, fmt.Errorf("wait for %s: exit code not known: %s", ref, st.Message)
		case errors.Is(err, errLost), errors.Is(err, runner.ErrPrecondition):
			return 0, err
		}
		if err := pause.sleep(ctx); err != nil {
			return 0, err
		}
	}
}

// keepExit records an exit code the moment it is seen, in the run's directory
// too: the engine forgets execs some minutes after their end, and all of them
// when it is restarted.
func (r *Runner) keepExit(ref, id string, code int) {
	r.use.agents.keep(ref, id, code)
	path, ok := r.exitPath(ref, id)
	if !ok {
		return
	}
	if err := datadir.WriteFile(path, []byte(strconv.Itoa(code)+"\n")); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.opts.Log.Warn("exit code is kept in memory only", "ref", ref, "id", id, "error", err)
	}
}

// exitSeen is an exit code that was recorded before.
func (r *Runner) exitSeen(ref, id string) (int, bool) {
	if code, ok := r.use.agents.seen(ref, id); ok {
		return code, true
	}
	path, ok := r.exitPath(ref, id)
	if !ok {
		return 0, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return code, err == nil
}

var execID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// exitPath is the file of an exit code; it goes with the run's directory.
func (r *Runner) exitPath(ref, id string) (string, bool) {
	run, err := RunOf(ref)
	if err != nil || !execID.MatchString(id) {
		return "", false
	}
	return filepath.Join(r.opts.Dir.RunDir(run), "exit-"+id), true
}
