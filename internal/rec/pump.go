package rec

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pumpSize is the size of pipe and buffer: large, because an engine that
	// is woken for little is slow. Passing pages on with splice(2) instead of
	// copying was measured at half the throughput under an engine.
	pumpSize = 256 << 10
	// drainQuiet and drainMost bound how long output of children that outlive
	// the command is waited for.
	drainQuiet = 100 * time.Millisecond
	drainMost  = time.Second
)

// pump copies one stream of the command to one of our own descriptors.
type pump struct {
	r, w *os.File // pipe; w is the command's end
	out  *os.File
	// heard, unless nil, is given all that passes.
	heard func([]byte)
	quiet time.Duration // drainQuiet
}

func newPump(out int) (*pump, error) {
	// Above 2, so that a reader gone away is an error and not our death.
	fd, err := unix.FcntlInt(uintptr(out), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if c, err := r.SyscallConn(); err == nil {
		// Less than asked for is fine.
		c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pumpSize) })
	}
	return &pump{r: r, w: w, out: os.NewFile(uintptr(fd), "out"), quiet: drainQuiet}, nil
}

// run copies until end of input or, once the command has ended, until what it
// printed is delivered. False means that nobody reads our output.
func (p *pump) run() bool {
	buf := make([]byte, pumpSize)
	for {
		n, err := p.r.Read(buf)
		if n > 0 && !p.pass(buf[:n]) {
			return false
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded): // see pumps.drain
			return p.finish(buf)
		default:
			return true
		}
	}
}

// finish delivers what the pipe holds now, hence everything the command wrote,
// and then for a short while what its children still write.
func (p *pump) finish(buf []byte) bool {
	owed, end := p.held(), time.Now().Add(drainMost)
	for owed > 0 || time.Now().Before(end) {
		var until time.Time // what is owed is there, however late we come to read it
		if owed <= 0 {
			until = time.Now().Add(p.quiet)
		}
		p.r.SetReadDeadline(until)
		n, err := p.r.Read(buf)
		if n > 0 && !p.pass(buf[:n]) {
			return false
		}
		if err != nil { // quiet and still held open by someone, or at its end
			return true
		}
		owed -= n
	}
	return true
}

// pass hands bytes on; false means that nobody reads our output.
func (p *pump) pass(b []byte) bool {
	if p.heard != nil {
		p.heard(b)
	}
	_, err := p.out.Write(b)
	return err == nil
}

// held is the number of bytes in the pipe.
func (p *pump) held() (n int) {
	if c, err := p.r.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// pumps copy the streams of one command.
type pumps struct {
	each    []*pump
	abort   chan struct{} // closed when nobody reads our output any more
	running sync.WaitGroup
	once    sync.Once   // closes abort
	gone    atomic.Bool // abort is closed
}

// newPumps makes one pump for each of our own descriptors.
func newPumps(outs ...int) (*pumps, error) {
	ps := &pumps{abort: make(chan struct{})}
	for _, out := range outs {
		p, err := newPump(out)
		if err != nil {
			return nil, err
		}
		ps.each = append(ps.each, p)
	}
	return ps, nil
}

// writeEnd is the descriptor that the command gets for the i-th stream. Fd
// also makes it blocking, as programs expect of their output.
func (ps *pumps) writeEnd(i int) uintptr { return ps.each[i].w.Fd() }

// start begins copying; the command has its ends by now.
func (ps *pumps) start() {
	for _, p := range ps.each {
		p.w.Close()
		ps.running.Go(func() {
			if p.run() {
				return
			}
			ps.gone.Store(true)
			ps.once.Do(func() { close(ps.abort) })
		})
	}
}

// drain is called when the command has ended. It returns when what the command
// printed is delivered, and says whether all of it was.
func (ps *pumps) drain() bool {
	for _, p := range ps.each {
		p.r.SetReadDeadline(time.Unix(1, 0)) // ends the read it waits in
	}
	ps.running.Wait()
	return !ps.gone.Load()
}
