package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// claimPoll is how often a claim that another process has is tried again.
const claimPoll = 50 * time.Millisecond

// Claim says which process works with a data dir. It ends with the process.
type Claim struct {
	dir *Dir

	mu   sync.Mutex
	file *os.File // nil while this process does not have it
}

// Claim is this process's claim on the data dir, not yet taken.
func (d *Dir) Claim() *Claim { return &Claim{dir: d} }

// Take takes the claim, waiting at most wait, and not longer than ctx, for
// another process to give it up. One that is taken already is nil.
func (c *Claim) Take(ctx context.Context, wait time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		return nil
	}
	f, err := os.OpenFile(c.dir.Path("plugin.lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	for end := time.Now().Add(wait); ; time.Sleep(claimPoll) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if taken := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR); taken && ctx.Err() == nil && time.Now().Before(end) {
			continue
		} else if taken {
			err = fmt.Errorf("it is in use by another plugin (%s): give each agent of this node a data_dir of its own, or end the other", owner(f))
		}
		f.Close()
		return fmt.Errorf("data_dir %q: %w", c.dir.path, err)
	}
	// For the message alone: that it is written, or not, changes nothing.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	c.file = f
	return nil
}

// owner names the process that wrote itself into the file.
func owner(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid, aerr := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && aerr == nil {
		return fmt.Sprint("process ", pid)
	}
	return "process unknown"
}

// Give gives the claim up; one that is not taken is fine.
func (c *Claim) Give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
}
