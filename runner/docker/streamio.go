package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
)

// resizeTimeout bounds a change of size: the engine waits ten seconds for a
// process that does not come up.
const resizeTimeout = 15 * time.Second

func (p *process) resize(cols, rows uint16) error {
	if !p.tty || cols == 0 || rows == 0 {
		return nil
	}
	p.resizing.Lock()
	defer p.resizing.Unlock()
	return p.setSize(cols, rows)
}

func (p *process) setSize(cols, rows uint16) error {
	if p.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, resizeTimeout)
	defer cancel()
	err := p.r.api.ContainerExecResize(ctx, p.exec, container.ResizeOptions{Width: uint(cols), Height: uint(rows)})
	if err == nil {
		return nil
	}
	if s, ierr := p.r.inspectExec(ctx, p.exec); ierr == nil && !s.Running && s.ExitCode != nil {
		return nil // it has just ended: nobody looks at that terminal
	}
	return wrap("resize terminal", err)
}

// refusalMark begins what a runtime says, on the stream of a process's output,
// about a process that it could not start.
const refusalMark = "OCI runtime exec failed"

// startText passes a process's output on, but holds back a beginning that may
// be the runtime's own words until the exit code tells.
type startText struct {
	w     io.Writer
	held  []byte
	plain bool // what comes is the process's own output
}

func (s *startText) Write(b []byte) (int, error) {
	if s.plain {
		return s.w.Write(b)
	}
	s.held = append(s.held, b...)
	mark := []byte(refusalMark)
	if len(s.held) <= maxEngineText && (bytes.HasPrefix(s.held, mark) || bytes.HasPrefix(mark, s.held)) {
		return len(b), nil
	}
	return len(b), s.release()
}

func (s *startText) release() error {
	s.plain = true
	held := s.held
	s.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := s.w.Write(held)
	return err
}

// settle turns what is held into an error when the exit code says that the
// process was not started, and passes it on as output otherwise.
func (s *startText) settle(ref string, code int) error {
	if (code != 126 && code != 127) || !bytes.HasPrefix(s.held, []byte(refusalMark)) {
		s.release() // its reader may be gone: then nobody misses it
		return nil
	}
	text := engineText(string(s.held))
	if strings.Contains(text, "paused") {
		return fmt.Errorf("%w (%s)", frozen("exec in", ref), text)
	}
	return fmt.Errorf("exec in %s: the process was not started: %s", ref, text)
}
