package ports

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
)

// Networks of a port.
const (
	TCP = "tcp"
	UDP = "udp"
)

// Port is one inbound port of a task. It is stored with the task, in JSON.
type Port struct {
	// Label is the job's name of the port.
	Label   string `json:"label"`
	Network string `json:"network"` // TCP or UDP
	// Namespace is the path of the network namespace to listen in; "" is this
	// process's own.
	Namespace string `json:"namespace,omitempty"`
	// Addr is the address to listen on; the zero Addr is every address.
	Addr netip.Addr `json:"addr,omitzero"`
	Port uint16     `json:"port"`
	// To is where the task listens inside its sandbox.
	To uint16 `json:"to"`
}

// Key tells the ports of a task apart.
func (p Port) Key() string { return p.Label + "/" + p.Network }

func (p Port) String() string {
	at := fmt.Sprintf(":%d", p.Port)
	if p.Addr.IsValid() {
		at = netip.AddrPortFrom(p.Addr, p.Port).String()
	}
	return fmt.Sprintf("port %q, %s %s", p.Label, p.Network, at)
}

// Set is a task's ports, with the sockets that nobody has fetched yet. It is
// safe for concurrent use; a nil Set has no ports.
type Set struct {
	ports []Port

	mu     sync.Mutex
	open   map[string]*os.File
	closed bool
}

// NewSet makes a Set of which nothing is open: the sidecar of a task that runs
// already may have it all.
func NewSet(ps []Port) *Set { return &Set{ports: ps, open: map[string]*os.File{}} }

// Open opens every port of a new task. On an error, which names each port that
// cannot be opened, none is open.
func Open(ps []Port) (*Set, error) {
	s := NewSet(ps)
	if err := s.Listen(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Listen opens every port that is not open. The error names each port that
// cannot be opened.
func (s *Set) Listen() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.ports {
		if s.closed || s.open[p.Key()] != nil {
			continue
		}
		f, err := listen(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.open[p.Key()] = f
	}
	return errors.Join(errs...)
}

// Rest closes what nobody has fetched, until Listen or a fetch opens it again:
// a client that connects is refused meanwhile, instead of waiting for a task
// that is not there yet.
func (s *Set) Rest() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeOpen()
}

func (s *Set) closeOpen() {
	for k, f := range s.open {
		f.Close()
		delete(s.open, k)
	}
}

// Ports lists what is in the set.
func (s *Set) Ports() []Port {
	if s == nil {
		return nil
	}
	return s.ports
}

// take gives a port's socket away, opening it when it is not open.
func (s *Set) take(p Port) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	if f := s.open[p.Key()]; f != nil {
		delete(s.open, p.Key())
		return f, nil
	}
	return listen(p)
}

// Close closes what nobody has fetched. A closed Set gives nothing away.
func (s *Set) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.closeOpen()
}
