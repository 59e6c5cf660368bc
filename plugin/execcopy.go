package plugin

import (
	"io"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// mostGathered is how much output is sent in one message. A message has a price
// of its own, whatever is in it.
const mostGathered = 256 << 10

// pass copies one stream and says when it is over. Only a failure to send is an
// error; the process is ended then, and with it the other stream.
func pass(to *replyStream, from io.Reader, s *runner.ExecSession) error {
	g := newGatherer()
	defer g.stop()
	go g.fill(from)
	var b []byte
	for {
		var over bool
		if b, over = g.take(b); over {
			return to.Close()
		}
		if _, err := to.Write(b); err != nil {
			s.Close()
			return err
		}
	}
}

// gatherer reads on while a message is being sent, so that the next one holds
// all that has come meanwhile. Nothing waits in it for more to come.
type gatherer struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	over    bool // no more comes
	stopped bool // no more is taken
}

func newGatherer() *gatherer {
	g := &gatherer{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// fill reads until the stream ends or nobody takes any more.
func (g *gatherer) fill(from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !g.put(buf[:n], err != nil) || err != nil {
			return
		}
	}
}

func (g *gatherer) put(b []byte, last bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.buf) > 0 && len(g.buf)+len(b) > mostGathered && !g.stopped {
		g.changed.Wait()
	}
	g.buf = append(g.buf, b...)
	g.over = last
	g.changed.Broadcast()
	return !g.stopped
}

// take returns what there is, once there is something, or that no more comes.
// spare is memory to go on with: what the last take returned.
func (g *gatherer) take(spare []byte) (b []byte, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.buf) == 0 && !g.over {
		g.changed.Wait()
	}
	b, g.buf = g.buf, spare[:0]
	g.changed.Broadcast()
	return b, len(b) == 0
}

func (g *gatherer) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.changed.Broadcast()
}
