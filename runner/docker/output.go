package docker

import (
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sinks remembers, per sandbox, who takes over its main process's output. It
// lives in memory only: after a restart of this process the output of a
// running sandbox is taken up again through AttachOutput and ReadLog. The zero
// value is ready for use.
type sinks struct {
	mu sync.Mutex
	m  map[string]runner.OutputSink
}

// put sets the sink of a sandbox; a nil sink discards its output.
func (s *sinks) put(ref string, sink runner.OutputSink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[string]runner.OutputSink)
	}
	s.m[ref] = sink
}

// get is the sink of a sandbox, nil when there is none.
func (s *sinks) get(ref string) runner.OutputSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[ref]
}

// drop forgets a sandbox's sink.
func (s *sinks) drop(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, ref)
}
