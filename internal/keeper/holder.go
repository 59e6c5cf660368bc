package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// Hold is the holder process: it has the log FIFOs of every task open for
// writing and writes nothing. A log collector reads to the last writer's end
// and is not started again before the next start of its agent; with the holder
// beside them, plugin and keeper may both die and no log ends, nor is lost what
// lies in a FIFO that nobody reads at the moment.
//
// It returns when it has held nothing for long enough or ctx ends.
func Hold(ctx context.Context, o Options) error {
	e := newEndpoint(o)
	h := &holder{endpoint: e, held: map[string]*grip{}}
	e.do, e.busy = h.do, h.busy
	if err := e.serve(ctx); err != nil {
		return fmt.Errorf("holder: %w", err)
	}
	return nil
}

// HolderSocket is where the holder beside a keeper answers.
func HolderSocket(keeper string) string { return strings.TrimSuffix(keeper, ".sock") + "-hold.sock" }

type holder struct {
	*endpoint

	mu   sync.Mutex // guards what follows
	held map[string]*grip
}

func (h *holder) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held) > 0
}

func (h *holder) do(ctx context.Context, r request, files []*os.File) (response, error) {
	closeAll(files)
	if r.Op == "watch" {
		<-ctx.Done()
		return response{}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.Op {
	case "hold":
		if r.ID == "" {
			return response{}, errors.New("no task named")
		}
		if h.held[r.ID] == nil {
			h.held[r.ID] = newGrip(r.Stdout, r.Stderr)
		}
	case "release":
		if g := h.held[r.ID]; g != nil {
			g.release()
			delete(h.held, r.ID)
		}
	case "quit":
		if len(h.held) == 0 {
			h.exit()
		}
	case "list":
	default:
		return response{}, fmt.Errorf("no such request %q", r.Op)
	}
	return response{IDs: slices.Sorted(maps.Keys(h.held))}, nil
}

// grip is the write ends of one task's log FIFOs.
type grip struct {
	fifo [streams]*fifo
	stop context.CancelFunc
}

// newGrip takes the write ends: at once where there is a reader, else as soon
// as there is one.
func newGrip(stdoutPath, stderrPath string) *grip {
	// They are held until release, not as long as a request.
	ctx, stop := context.WithCancel(context.Background())
	g := &grip{fifo: [streams]*fifo{{path: stdoutPath}, {path: stderrPath}}, stop: stop}
	for _, f := range g.fifo {
		if ok, _ := f.open(); !ok {
			go f.hold(ctx) // what cannot be opened, the keeper complains of
		}
	}
	return g
}

func (g *grip) release() {
	g.stop()
	for _, f := range g.fifo {
		f.close()
	}
}
