package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
)

// lastWords bounds the sending when the driver ends; the rest waits in the spool
// for the next one.
const lastWords = 3 * time.Second

// Options make an Exporter. Dir, Limit, URL and Log are required.
type Options struct {
	// Dir is the spool's folder, and Limit the most it holds in bytes.
	Dir   string
	Limit int64
	// URL is where log records are posted to.
	URL string
	// Headers are read for each request; nil is none.
	Headers func() (http.Header, error)
	// Roots verify the collector's certificate; nil is the system's.
	Roots *x509.CertPool
	// Node names this node to the collector.
	Node string
	// Wait is the first pause after a failure, MaxWait the longest; 0 is 1 s
	// and a minute.
	Wait, MaxWait time.Duration
	Log           *slog.Logger
}

// Exporter sends records to one collector. It is safe for concurrent use.
type Exporter struct {
	o      Options
	client client

	mu     sync.Mutex
	spool  *spool // nil before Start and after Close
	cancel context.CancelFunc
	done   chan struct{}
	more   chan struct{} // holds a token when there may be something new
}

// New makes an Exporter that does nothing yet.
func New(o Options) *Exporter {
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	return &Exporter{o: o, more: make(chan struct{}, 1), client: client{url: o.URL, headers: o.Headers, hc: &http.Client{
		Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}
}

// Start opens the spool and begins to send what is in it. While another process
// still has the spool nothing is taken.
func (e *Exporter) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		return nil
	}
	s, err := openSpool(e.o.Dir, e.o.Limit)
	if err != nil && !errors.Is(err, errTaken) {
		return fmt.Errorf("otlp: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.spool, e.cancel, e.done = s, cancel, done
	go func() {
		defer close(done)
		if s == nil {
			s = e.await(ctx)
		}
		if s != nil {
			e.run(ctx, s)
		}
	}()
	return nil
}

// Take keeps a copy of a record until it is delivered; it waits for the disk
// and for nobody else. On an error the record was not taken.
func (e *Exporter) Take(r control.OwnedRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spool == nil {
		return errors.New("otlp: the export is not running")
	}
	if err := e.spool.put(owner{r.Namespace, r.RunID}, b); err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	select {
	case e.more <- struct{}{}:
	default:
	}
	return nil
}

// Close ends the sending. What could not be delivered shortly stays in the spool.
func (e *Exporter) Close() error {
	e.mu.Lock()
	stop, done := e.cancel, e.done
	e.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	<-done
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = nil
	if e.spool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	s := e.sender(e.spool)
	for more, err := true, error(nil); more && err == nil; {
		more, err = s.step(ctx)
	}
	if n := e.spool.waiting(); n > 0 {
		e.o.Log.Info("decision records wait for the collector; they are sent when the driver runs again", "bytes", n)
	}
	err := e.spool.close()
	e.spool = nil
	e.client.hc.CloseIdleConnections()
	return err
}

// run sends until ctx ends. After a failure it waits, twice as long each time.
func (e *Exporter) run(ctx context.Context, sp *spool) {
	s := e.sender(sp)
	wait := time.Duration(0)
	for ctx.Err() == nil {
		more, err := s.step(ctx)
		switch {
		case err != nil:
			wait = e.pauseAfter(err, wait)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			continue
		case wait > 0:
			wait = 0
			e.o.Log.Info("the collector takes decision records again")
		}
		if !more {
			select {
			case <-e.more:
			case <-ctx.Done():
			}
		}
	}
}

// pauseAfter is how long to wait after a failure that followed a pause of last.
// The first of several is told.
func (e *Exporter) pauseAfter(err error, last time.Duration) time.Duration {
	if last == 0 {
		e.o.Log.Warn("decision records are not delivered to the collector; they are kept and sent again", "error", err)
	}
	wait := max(2*last, e.o.Wait)
	var later *laterError
	if errors.As(err, &later) {
		wait = max(wait, later.after)
	}
	return min(wait, e.o.MaxWait)
}
