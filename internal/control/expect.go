package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Expect makes a run's open socket ready for another sidecar in place of one
// that died. Socket, configuration and records stay; the endpoint's Ready is
// the new sidecar's. A run without a socket in this process is an error.
func (s *Server) Expect(id uuid.UUID) (egress.Endpoint, error) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r == nil {
		return egress.Endpoint{}, fmt.Errorf("control: run %s is not known", id)
	}
	e, err := r.expect()
	if err != nil {
		return egress.Endpoint{}, fmt.Errorf("control: run %s: %w", id, err)
	}
	return e, nil
}

func (r *run) expect() (egress.Endpoint, error) {
	r.life.Lock()
	defer r.life.Unlock()
	if r.srv == nil {
		return egress.Endpoint{}, errors.New("its socket is not open")
	}
	dir := r.opts.Dir.RunDir(r.id)
	if err := ignoreMissing(os.Remove(filepath.Join(dir, readyName))); err != nil {
		return egress.Endpoint{}, err
	}
	ready := make(chan struct{})
	r.mu.Lock()
	r.ready = ready
	r.mu.Unlock()
	r.keep.Lock()
	r.recent = recent{} // another sidecar, which has sent nothing yet
	r.keep.Unlock()
	return egress.Endpoint{Dir: filepath.Join(dir, folderName), Ready: ready}, nil
}
