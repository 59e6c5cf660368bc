package rec

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec/castfile"
)

// cells is a terminal's size.
type cells struct{ cols, rows int }

// windowSize is the size of the terminal at fd, if there is one. A terminal that
// has no size yet gets the usual one.
func windowSize(fd int) (cells, bool) {
	w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return cells{80, 24}, isTerminal(fd)
	}
	if w.Col == 0 || w.Row == 0 {
		return cells{80, 24}, true
	}
	return cells{int(w.Col), int(w.Row)}, true
}

// recordTerminal gives the command a terminal of its own and carries what passes
// between that and ours.
func recordTerminal(a recordArgs, s *signals, f *castfile.File) (int, *startError) {
	master, slave, err := openTerminal()
	if err != nil {
		return exitNotExecutable, &startError{a.argv[0], "a terminal of its own: " + err.Error(), exitNotExecutable}
	}
	size, _ := windowSize(0)
	setSize(master, size)
	restore := rawMode(0)
	defer restore()
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return exitNotExecutable, &startError{a.argv[0], err.Error(), exitNotExecutable}
	}
	screen := &pump{r: master, w: slave, out: os.NewFile(uintptr(out), "out"), heard: func(b []byte) { f.Output(0, b) }}
	p := &pumps{each: []*pump{screen}, abort: make(chan struct{})}
	fd := slave.Fd()
	pid, serr := start(a.argv, stdio{fd, fd, fd}, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0})
	if serr != nil {
		return serr.code, serr
	}
	p.start()
	go typed(master, a, f)
	code := superviseTo(pid, func(sig syscall.Signal) {
		if sig == syscall.SIGWINCH {
			if size, ok := windowSize(0); ok {
				setSize(master, size) // its kernel tells the command
				f.Resize(size.cols, size.rows)
			}
			return
		}
		syscall.Kill(pid, sig)
	}, s, p.abort)
	if !p.drain() {
		return exitPipe, nil
	}
	return code, nil
}

// typed carries what is typed. It is recorded only where the recording goes to
// who can mask it: it may be a password.
func typed(to *os.File, a recordArgs, f *castfile.File) {
	buf := make([]byte, 4<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			if a.delivery != nil {
				f.Input(buf[:n])
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// openTerminal opens both ends of a new terminal.
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	var n int
	raw, err := master.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) {
			if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
				n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
			}
		})
		err = errors.Join(err, cerr)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("/dev/ptmx: %w", err)
	}
	return master, slave, nil
}

func setSize(f *os.File, c cells) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(c.cols), Row: uint16(c.rows)})
		})
	}
}

// rawMode has a terminal pass every byte on, until restore.
func rawMode(fd int) (restore func()) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
	return func() { unix.IoctlSetTermios(fd, unix.TCSETS, old) }
}
