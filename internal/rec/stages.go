package rec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exitStages is the code of a start whose list of stages cannot be read.
const exitStages = 119

// stage is a step of the sandbox's start as the driver wrote it down.
type stage struct {
	Name string `json:"name"`
	// File is a script beside the list; "" for a stage that clones.
	File          string  `json:"file,omitempty"`
	Repos         []clone `json:"repos,omitempty"`
	TimeoutMillis int64   `json:"timeout_ms,omitempty"`
	Code          int     `json:"code"`

	deadline time.Time // zero without a timeout
	dir      string    // of the list
}

// runStages runs what the list at path says and returns 0, or the exit code
// the sandbox ends with.
func runStages(s *signals, path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return fail(exitStages, "stages: %v", err)
	}
	var list []stage
	if err := json.Unmarshal(b, &list); err != nil {
		return fail(exitStages, "stages: %v", err)
	}
	for _, st := range list {
		st.dir = filepath.Dir(path)
		if st.TimeoutMillis > 0 {
			st.deadline = time.Now().Add(time.Duration(st.TimeoutMillis) * time.Millisecond)
		}
		if code := st.run(s); code != 0 {
			return code
		}
	}
	return 0
}

// run runs one stage: 0, the stage's own code when it failed, or 128+n when
// signal n asked the sandbox to stop meanwhile.
func (st *stage) run(s *signals) int {
	var e ending
	if st.File != "" {
		e = st.command(s, step{argv: st.script()})
	} else {
		e = st.cloneAll(s)
	}
	switch {
	case e.stopped != 0:
		st.say("stopped by signal %d", int(e.stopped))
		return 128 + int(e.stopped)
	case e.late:
		st.say("failed: it took longer than %v", time.Duration(st.TimeoutMillis)*time.Millisecond)
		return st.Code
	case e.err != nil:
		st.say("failed: %v", e.err)
		return st.Code
	case e.code != 0:
		st.say("failed: exit code %d", e.code)
		return st.Code
	}
	return 0
}

// script is the command line of a script: by itself when it names its
// interpreter, else under the shell.
func (st *stage) script() []string {
	file := filepath.Join(st.dir, st.File)
	head := make([]byte, 2)
	if f, err := os.Open(file); err == nil {
		f.Read(head)
		f.Close()
	}
	if string(head) == "#!" {
		return []string{file}
	}
	return []string{"/bin/sh", file}
}

func (st *stage) say(format string, a ...any) {
	fmt.Fprintf(os.Stderr, "[%s] "+format+"\n", append([]any{st.Name}, a...)...)
}

// step is one command of a stage.
type step struct {
	argv []string
	dir  string   // "" is where the sandbox starts
	env  []string // beside the sandbox's own
}

// ending is how a command of a stage ended. The zero value is success.
type ending struct {
	code    int
	stopped syscall.Signal // the sandbox was asked to stop
	late    bool           // the stage's time was up
	err     error          // it did not start
}

// command runs one command to its end, in a process group of its own. A signal
// that ends programs ends the stage: it goes to the whole group.
func (st *stage) command(s *signals, c step) ending {
	out, err := newPrefixer(st.Name, 1)
	if err != nil {
		return ending{err: err}
	}
	errs, err := newPrefixer(st.Name, 2)
	if err != nil {
		return ending{err: err}
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		return ending{err: err}
	}
	defer in.Close()
	pid, serr := startAs(&syscall.ProcAttr{
		Dir: c.dir, Env: append(os.Environ(), c.env...), Sys: ownSession(),
		Files: []uintptr{in.Fd(), out.w.Fd(), errs.w.Fd()},
	}, c.argv)
	out.start()
	errs.start()
	if serr != nil {
		return ending{err: serr}
	}
	e := st.await(pid, s)
	out.settle()
	errs.settle()
	return e
}

// await reaps until pid has ended, however that comes about.
func (st *stage) await(pid int, s *signals) ending {
	var e ending
	var late <-chan time.Time
	if !st.deadline.IsZero() {
		t := time.NewTimer(time.Until(st.deadline))
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case <-s.child:
			if code, done := reap(pid); done {
				e.code = code
				return e
			}
		case sig := <-s.forward:
			if n := sig.(syscall.Signal); ends(n) {
				if e.stopped == 0 {
					e.stopped = n
				}
				unix.Kill(-pid, n)
			}
		case <-late:
			e.late = true
			unix.Kill(-pid, unix.SIGKILL)
		}
	}
}

// ends reports whether a signal is meant to end programs.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		return true
	}
	return false
}
