package plugin

import (
	"io"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// execRecording records a session as it is read. It never fails the session.
type execRecording struct {
	rec  *cast.Recorder
	once sync.Once
	tell func(error)
}

// note tells of the first error.
func (x *execRecording) note(err error) {
	if err != nil {
		x.once.Do(func() { x.tell(err) })
	}
}

// tap puts the recording between a session and whoever uses it.
func (x *execRecording) tap(s *runner.ExecSession) {
	s.Stdout, s.Stderr = tapped{s.Stdout, x, 0}, tapped{s.Stderr, x, 1}
	resize, wait := s.Resize, s.Wait
	s.Resize = func(cols, rows uint16) error {
		x.note(x.rec.Resize(int(cols), int(rows)))
		return resize(cols, rows)
	}
	s.Wait = func() (int, error) {
		code, err := wait()
		if err == nil {
			x.note(x.rec.Close(exitMarker(outcome{Code: code})))
		}
		return code, err
	}
}

// tapped is one of the session's outputs.
type tapped struct {
	from   io.Reader
	to     *execRecording
	stream int
}

func (t tapped) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	if n > 0 {
		t.to.note(t.to.rec.Output(t.stream, b[:n]))
	}
	return n, err
}
