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

// claimFile is locked by whoever has the claim, and has its process id.
const claimFile = "plugin.lock"

// Claim says which process works with a data dir. It ends with the process.
type Claim struct {
	dir *Dir

	mu   sync.Mutex
	file *os.File // nil while this process does not have it
	last int      // who took it before; 0 when that is not known
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
	f, err := os.OpenFile(c.dir.Path(claimFile), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
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
			err = &Taken{Dir: c.dir.path, By: owner(f)}
		} else {
			err = fmt.Errorf("data_dir %q: %w", c.dir.path, err)
		}
		f.Close()
		return err
	}
	c.file, c.last = f, owner(f)
	c.write(os.Getpid())
	return nil
}

// write names a process in the file. It is for messages and for LastClaimant:
// that it is written, or not, does not change who has the claim.
func (c *Claim) write(pid int) {
	_ = c.file.Truncate(0)
	_, _ = c.file.WriteAt(fmt.Appendln(nil, pid), 0)
}

// Taken is the error of a claim that another process has.
type Taken struct {
	Dir string // the data dir
	By  int    // the process's id; 0 when it is not known
}

func (t *Taken) Error() string {
	return fmt.Sprintf("data_dir %q: it is in use by another plugin (%s): give each agent of this node a data_dir of its own, or end the other", t.Dir, t.Process())
}

// Process names the process in words.
func (t *Taken) Process() string {
	if t.By == 0 {
		return "process unknown"
	}
	return fmt.Sprint("process ", t.By)
}

// LastClaimant is the id of the process that took the claim last, whether it
// still has it or not; 0 when nobody did, or it is not known.
func (d *Dir) LastClaimant() int {
	f, err := os.Open(d.Path(claimFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	return owner(f)
}

// Claimed says which process has the claim; nil when none has. Nothing changes.
func (d *Dir) Claimed() *Taken {
	f, err := os.Open(d.Path(claimFile))
	if err != nil {
		return nil
	}
	defer f.Close() // lets go of the lock
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return &Taken{Dir: d.path, By: owner(f)}
}

// owner is the process that wrote itself into the file; 0 when that cannot be read.
func owner(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// Undo gives the claim up as if it had not been taken: LastClaimant is who it
// was before.
func (c *Claim) Undo() {
	c.mu.Lock()
	if c.file != nil {
		c.write(c.last)
	}
	c.mu.Unlock()
	c.Give()
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
