package rec

import (
	"bufio"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// prefixLine is the longest line that stays in one piece.
	prefixLine = 16 << 10
	// settleQuiet is how long a stage's output may be silent before it counts
	// as delivered, when something it started still holds it open.
	settleQuiet = 50 * time.Millisecond
)

// prefixer copies one stream of a stage to one of our own descriptors, line by
// line, each after the stage's name.
type prefixer struct {
	pump *pump
	w    *os.File
	mark string
	done chan struct{} // closed when the stream is at its end

	passed atomic.Int64 // bytes of the stage's that were passed on
}

func newPrefixer(name string, out int) (*prefixer, error) {
	p, err := newPump(out)
	if err != nil {
		return nil, err
	}
	return &prefixer{pump: p, w: p.w, mark: "[" + name + "] ", done: make(chan struct{})}, nil
}

// start begins to copy; the command has its end by now. It goes on for as long
// as something the stage has left running holds the stream.
func (p *prefixer) start() {
	p.w.Close()
	go func() {
		defer close(p.done)
		defer p.pump.r.Close()
		r := bufio.NewReaderSize(p.pump.r, prefixLine)
		for {
			line, err := r.ReadSlice('\n')
			if len(line) > 0 {
				whole := append([]byte(p.mark), line...)
				if line[len(line)-1] != '\n' {
					whole = append(whole, '\n')
				}
				p.pump.out.Write(whole) // to nobody, when nobody reads
				p.passed.Add(int64(len(line)))
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
}

// settle returns when what the command printed has been passed on. What others
// print that it has left running is waited for only while it comes in between:
// they may go on for ever.
func (p *prefixer) settle() {
	// In the pipe, in the reader's buffer or passed on: at least all that the
	// command has printed. Where the buffer has less, silence ends the wait.
	owed := p.passed.Load() + prefixLine + int64(p.held())
	for quiet := 0; quiet < 2 && p.passed.Load() < owed; {
		select {
		case <-p.done:
			return
		case <-time.After(settleQuiet):
		}
		if quiet++; p.held() > 0 {
			quiet = 0
		}
	}
}

// held is the number of bytes that wait in the pipe.
func (p *prefixer) held() int {
	c, err := p.pump.r.SyscallConn()
	n := 0
	if err == nil {
		c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}
