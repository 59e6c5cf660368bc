package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

const (
	// agentEnds is how long the plugin of an agent that has just ended may take
	// to let go of its data dir.
	agentEnds = 5 * time.Second
	// orphanEnds is how long a plugin without an agent may take to find that
	// another process has its data dir, and to end.
	orphanEnds = time.Minute
	// orphanPoll is how often it is looked whether it has.
	orphanPoll = 100 * time.Millisecond
)

// claimToPurge takes the claim on an installation, so that no plugin works with
// it or begins to: what a plugin holds would be removed under its tasks, and it
// would make things anew behind the purge. give lets go of it. An installation
// that is not there is for the purge to report.
func (e Env) claimToPurge(ctx context.Context, config map[string]any) (give func(), err error) {
	dir, err := existingDir(config)
	if dir == nil {
		return func() {}, err
	}
	last := dir.LastClaimant()
	claim := dir.Claim()
	err = claim.Take(ctx, agentEnds)
	if taken := new(datadir.Taken); errors.As(err, &taken) {
		return nil, fmt.Errorf("purge: the plugin of an agent (%s) works with data_dir %q, and nothing was removed: stop its jobs, "+
			"then take the plugin block out of the agent's configuration and restart the agent, or stop it, and purge again", taken.Process(), taken.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := e.awaitOrphan(ctx, last); err != nil {
		claim.Undo() // it is waited for again by whoever purges next
		return nil, err
	}
	return claim.Give, nil
}

// sayInUse tells who has an installation of which things were listed.
func (e Env) sayInUse(config map[string]any) {
	dir, err := existingDir(config)
	if dir == nil || err != nil {
		return
	}
	if taken := dir.Claimed(); taken != nil {
		fmt.Fprintf(e.Stdout, "in use by the plugin of an agent (%s): -yes is refused until that has ended\n", taken.Process())
	}
}

// existingDir is the data dir that the options name; nil when it is not there.
func existingDir(config map[string]any) (*datadir.Dir, error) {
	path, _ := config["data_dir"].(string)
	if path == "" {
		path = datadir.Default
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return datadir.Open(path)
}

// awaitOrphan waits until the process that had the claim last has ended, when it
// is a plugin: one whose agent was killed has given the claim up and lives on
// with its tasks until it sees that another has taken it.
func (e Env) awaitOrphan(ctx context.Context, pid int) error {
	if !e.isPlugin(pid) {
		return nil
	}
	fmt.Fprintf(e.Stderr, "process %d is a plugin whose agent is gone; it is waited for, since it ends when another has its data dir\n", pid)
	ctx, cancel := context.WithTimeout(ctx, orphanEnds)
	defer cancel()
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for e.isPlugin(pid) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("purge: process %d, a plugin whose agent is gone, does not end, and nothing was removed: end it (kill %d) and purge again", pid, pid)
		}
	}
	return nil
}

// isPlugin reports whether a living process is this program as a plugin.
func (e Env) isPlugin(pid int) bool {
	if pid <= 0 || pid == os.Getpid() {
		return false
	}
	proc := filepath.Join("/proc", fmt.Sprint(pid))
	program, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil || filepath.Base(strings.TrimSuffix(program, " (deleted)")) != filepath.Base(e.Executable) {
		return false
	}
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	words := strings.Split(string(args), "\x00")
	return err == nil && (len(words) < 2 || !slices.Contains(besidePlugin(), words[1]))
}
