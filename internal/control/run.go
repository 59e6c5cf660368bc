package control

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/netutil"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// drainTimeout lets requests under way finish when a socket closes.
const drainTimeout = 3 * time.Second

// maxConns bounds a sidecar's connections.
const maxConns = 32

// run is one run's service.
type run struct {
	id   uuid.UUID
	opts *Options
	log  *slog.Logger

	// life is held while the socket opens or closes.
	life sync.Mutex
	srv  *http.Server // nil while there is no socket
	give net.Listener // where inbound ports are fetched; nil without any

	mu     sync.Mutex
	config config
	ready  chan struct{} // closed when the sidecar listens
	owned  bool          // prepared

	approvals approvals
	reported  reportedCasts
	uploads   *uploadPace

	// keep is held from a record's arrival until it is kept and heard.
	keep    sync.Mutex
	owner   Run
	mask    masker
	journal *journal // nil keeps no files
	counts  *counter
	recent  recent   // the latest records kept, to know them when they are sent again
	copied  []recent // likewise, of those that each of opts.Copies took

	// away is held while a record is delivered elsewhere, which may take long:
	// credentials do not wait for that.
	away      sync.Mutex
	forwarded recent // the latest records delivered
}

func newRun(o *Options, id uuid.UUID) *run {
	return &run{
		id: id, opts: o, log: o.Log.With("run_id", id.String()), ready: make(chan struct{}),
		counts: newCounter(id), uploads: newUploadPace(), copied: make([]recent, len(o.Copies)),
	}
}

// adopt installs an owner and opens its files. On an error the run is as before.
func (r *run) adopt(owner Run) error {
	r.keep.Lock()
	defer r.keep.Unlock()
	j, err := openJournal(owner.FilesDir, r.id, r.opts.MaxJournal)
	if err != nil {
		return err
	}
	if err := r.approvals.open(owner.FilesDir, sealFor(r.opts.Dir, owner.Owner)); err != nil {
		return errors.Join(err, j.close())
	}
	if j != nil {
		r.counts, r.recent = j.counts, j.recent
	}
	old := r.journal
	if r.owner.Ports != owner.Ports {
		r.owner.Ports.Close()
	}
	r.owner, r.journal = owner, j
	r.mask = r.mask.with(append(r.currentConfig().secrets(), owner.SecretValues()...)...)
	r.mu.Lock()
	r.owned = true
	r.mu.Unlock()
	return old.close()
}

func (r *run) prepared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned
}

func (r *run) currentConfig() config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

// open makes the socket and serves c on it. Of a resumed run the folder is
// used as it stands: the sidecar has it mounted.
func (r *run) open(c config, resumed bool) (egress.Endpoint, error) {
	r.life.Lock()
	defer r.life.Unlock()
	r.stop()
	if !resumed {
		if err := saveConfig(r.opts.Dir, r.id, c); err != nil {
			return egress.Endpoint{}, err
		}
	}
	dir := filepath.Join(r.opts.Dir.RunDir(r.id), folderName)
	l, err := listen(dir, socketName, "unix", r.opts.UID)
	if err != nil {
		return egress.Endpoint{}, err
	}
	ready := make(chan struct{})
	if resumed && wasReady(r.opts.Dir, r.id) {
		close(ready)
	}
	r.mu.Lock()
	r.config, r.ready = c, ready
	r.mu.Unlock()
	r.keep.Lock()
	r.mask = r.mask.with(append(c.secrets(), r.owner.SecretValues()...)...)
	if !resumed {
		r.recent = recent{} // another sidecar, which has sent nothing yet
	}
	r.keep.Unlock()

	if err := r.openPorts(dir); err != nil {
		l.Close()
		return egress.Endpoint{}, err
	}
	srv := newHTTPServer(r.handler(), r.log)
	r.srv = srv
	go func() {
		if err := srv.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("control socket failed; the sidecar is on its own", "error", err)
		}
	}()
	return egress.Endpoint{Dir: dir, Ready: ready}, nil
}

// stop ends the service after what is under way. r.life is held.
func (r *run) stop() {
	if r.give != nil {
		r.give.Close()
		r.give = nil
	}
	if r.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := r.srv.Shutdown(ctx); err != nil {
		r.srv.Close()
	}
	r.srv = nil
}

// close ends the service and writes the summary of a run that had one.
func (r *run) close() error {
	r.life.Lock()
	defer r.life.Unlock()
	served := r.srv != nil
	r.stop()
	r.keep.Lock()
	defer r.keep.Unlock()
	if r.journal == nil || !served {
		return nil
	}
	return r.journal.finish()
}

// detach ends the service and lets go of the owner and the files.
func (r *run) detach() {
	r.life.Lock()
	defer r.life.Unlock()
	r.stop()
	r.keep.Lock()
	defer r.keep.Unlock()
	if err := errors.Join(r.journal.close(), r.approvals.close(), r.reported.close()); err != nil {
		r.log.Warn("files not closed", "error", err)
	}
	r.owner.Ports.Close()
	r.journal, r.owner = nil, Run{}
}

func (r *run) summary() Summary {
	r.keep.Lock()
	defer r.keep.Unlock()
	return r.counts.summary()
}

// markReady closes the endpoint's Ready, and remembers it for the next process.
func (r *run) markReady() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ready:
		return nil
	default:
	}
	if err := datadir.WriteFile(filepath.Join(r.opts.Dir.RunDir(r.id), readyName), nil); err != nil {
		return err
	}
	close(r.ready)
	return nil
}

func wasReady(d *datadir.Dir, id uuid.UUID) bool {
	_, err := os.Lstat(filepath.Join(d.RunDir(id), readyName))
	return err == nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
