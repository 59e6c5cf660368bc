package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// SidecarUID is the user that sidecars run as, inside and outside.
const SidecarUID = 65532

// Options is what a Server needs of its host.
type Options struct {
	// Dir holds the runs' folders. Required.
	Dir *datadir.Dir
	// Node is asked at each fetch for what the node knows; Listen is filled
	// in. nil knows nothing.
	Node func() egress.NodeConfig
	// Own is asked for the node's own addresses each time that a sidecar asks;
	// nil takes those of Node.
	Own func() ([]string, error)
	// UID owns sockets and their folders; 0 is SidecarUID.
	UID int
	// External takes approvals and records; nil decides and keeps them here.
	External External
	// Copies take a copy of every record, each in its turn.
	Copies []Copy
	// MaxJournal bounds each of a run's two decision files, in bytes; 0 is 64 MiB.
	MaxJournal int64
	// Log takes operational messages. Required.
	Log *slog.Logger
}

// Copy takes copies of records, of all runs of the node. A record that it
// returned an error for is offered again, and its sidecar keeps it meanwhile.
// Take must not wait for others than the disk.
type Copy interface {
	Take(OwnedRecord) error
}

// Run is a run as its owner makes it known.
type Run struct {
	ID uuid.UUID
	// Owner says to people whose run it is.
	Owner Owner
	// FilesDir is the folder for people's files, "<task dir>/wardyn". It is
	// made when it is missing and must be a real folder of mode 0700 that
	// belongs to this process's user. "" keeps no files.
	FilesDir string
	// OnDecision hears each record once it is kept, secrets masked. Calls for
	// one run come one at a time and the next waits, so it must neither block
	// nor call the Server. nil hears nothing.
	OnDecision func(egress.DecisionLog)
	// Secrets are values to mask beside those of the configuration.
	Secrets []string
	// Credentials are what the run's sidecar may ask for.
	Credentials []Credential
	// Git says what may be done in the repositories of the configuration's grants.
	Git map[string]egress.GitRule
	// Learn: what no list speaks of passes, within the ceilings.
	Learn bool
	// Reported says what becomes of recordings that the sandbox makes of itself;
	// nil takes none.
	Reported *Reported
	// OnApproval hears of each approval that was raised, and of each that was
	// decided. The same holds as for OnDecision. nil hears nothing.
	OnApproval func(Approval)
	// Ports are the run's inbound ports, which the sidecar fetches the sockets
	// of. They belong to the Server, which closes them when it lets go of the
	// run. nil is none.
	Ports *ports.Set
}

// Owner is whose a run is, in Nomad's words.
type Owner struct {
	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`
	Alloc     string `json:"alloc,omitempty"`
	Task      string `json:"task,omitempty"`
}

// Server serves the control sockets of a node's runs. It is safe for
// concurrent use.
type Server struct {
	opts Options

	mu   sync.Mutex
	runs map[uuid.UUID]*run
	ctl  *http.Server // nil without one
}

// New makes a Server without runs.
func New(o Options) *Server {
	if o.Node == nil {
		o.Node = func() egress.NodeConfig { return egress.NodeConfig{} }
	}
	if o.Own == nil {
		node := o.Node
		o.Own = func() ([]string, error) { return node().Own, nil }
	}
	if o.UID == 0 {
		o.UID = SidecarUID
	}
	return &Server{opts: o, runs: map[uuid.UUID]*run{}}
}

// Prepare makes a run known before its socket exists, and opens its files. A
// run that is known already gets the new owner's wishes from now on.
func (s *Server) Prepare(r Run) error {
	if r.ID == uuid.Nil {
		return errors.New("control: run without an id")
	}
	known := s.get(r.ID)
	if err := known.adopt(r); err != nil {
		s.dropUnprepared(known)
		return fmt.Errorf("control: run %s: %w", r.ID, err)
	}
	return nil
}

// Open makes the run's socket and serves proxyConfig on it, together with
// what the plan of the run's network says. Opening an open run replaces its
// configuration. A run that was not prepared is served, and its
// decisions are counted and logged only. On an error there is no socket.
func (s *Server) Open(_ context.Context, id uuid.UUID, proxyConfig []byte, net netpool.Plan) (egress.Endpoint, error) {
	c, err := parseConfig(id, proxyConfig, net.Sidecar, net.Agent)
	if err != nil {
		return egress.Endpoint{}, fmt.Errorf("control: run %s: %w", id, err)
	}
	e, err := s.get(id).open(c, false)
	if err != nil {
		return egress.Endpoint{}, errors.Join(fmt.Errorf("control: run %s: %w", id, err), s.Close(id))
	}
	return e, nil
}

// Resume is Prepare and Open in a new process, with the configuration that the
// run was opened with. A run that never had a socket is known again and has an
// empty Endpoint.
func (s *Server) Resume(_ context.Context, r Run) (egress.Endpoint, error) {
	if err := s.Prepare(r); err != nil {
		return egress.Endpoint{}, err
	}
	c, found, err := loadConfig(s.opts.Dir, r.ID)
	if err != nil {
		return egress.Endpoint{}, fmt.Errorf("control: run %s: %w", r.ID, err)
	}
	if !found {
		return egress.Endpoint{}, nil
	}
	e, err := s.get(r.ID).open(c, true)
	if err != nil {
		return egress.Endpoint{}, fmt.Errorf("control: run %s: %w", r.ID, err)
	}
	return e, nil
}

// Close ends the run's socket, removes its folder and the stored
// configuration, and writes the run's summary. An unknown run is nil, and what
// another process left of it is removed. A prepared run stays so, and may be
// opened again.
func (s *Server) Close(id uuid.UUID) error {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	var err error
	if r != nil {
		err = r.close()
		s.dropUnprepared(r)
	}
	if err := errors.Join(err, removeFiles(s.opts.Dir, id)); err != nil {
		return fmt.Errorf("control: close run %s: %w", id, err)
	}
	return nil
}

// Forget is Close, after which the run is unknown. Its files stay.
func (s *Server) Forget(id uuid.UUID) error {
	err := s.Close(id)
	s.mu.Lock()
	r := s.runs[id]
	delete(s.runs, id)
	s.mu.Unlock()
	if r != nil {
		r.detach()
	}
	return err
}

// Runs lists the known runs in order.
func (s *Server) Runs() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]uuid.UUID, 0, len(s.runs))
	for id := range s.runs {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Summary counts a known run's decisions so far.
func (s *Server) Summary(id uuid.UUID) (Summary, bool) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r == nil {
		return Summary{}, false
	}
	return r.summary(), true
}

// Shutdown ends this process's service and leaves everything in place for the
// next one: configurations, folders, and sidecars that try again.
func (s *Server) Shutdown() {
	s.mu.Lock()
	runs, ctl := s.runs, s.ctl
	s.runs, s.ctl = map[uuid.UUID]*run{}, nil
	s.mu.Unlock()
	if ctl != nil {
		ctl.Close()
	}
	for _, r := range runs {
		r.detach()
	}
}

// get is the run of an id, made when it is unknown.
func (s *Server) get(id uuid.UUID) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		r = newRun(&s.opts, id)
		s.runs[id] = r
	}
	return r
}

// dropUnprepared forgets a run that only its socket made known.
func (s *Server) dropUnprepared(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.prepared() && s.runs[r.id] == r {
		delete(s.runs, r.id)
	}
}

// removeFiles removes what a run has below its own folder for its socket.
func removeFiles(d *datadir.Dir, id uuid.UUID) error {
	dir := d.RunDir(id)
	var errs []error
	for _, name := range []string{folderName, configName, readyName} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
