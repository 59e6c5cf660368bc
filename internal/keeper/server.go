package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Run is the keeper process. It returns when it has been idle for long enough
// or ctx ends. Only one runs per socket; a second one waits for the first to
// end.
func Run(ctx context.Context, o Options) error {
	e := newEndpoint(o)
	s := &server{endpoint: e, tasks: map[string]*task{}}
	e.do, e.busy = s.do, s.busy
	if err := e.serve(ctx); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return nil
}

// server holds the tasks of a keeper.
type server struct {
	*endpoint

	mu    sync.Mutex // guards what follows
	tasks map[string]*task
}

func (s *server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks) > 0
}

func (s *server) do(ctx context.Context, r request, files []*os.File) (response, error) {
	if r.Op != "follow" {
		closeAll(files)
	}
	if r.Op == "list" || r.Op == "quit" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Op == "quit" && len(s.tasks) == 0 {
			s.exit()
		}
		return response{IDs: slices.Sorted(maps.Keys(s.tasks))}, nil
	}
	if r.ID == "" {
		closeAll(files)
		return response{}, errors.New("no task named")
	}
	if r.Op == "follow" {
		return response{}, s.follow(r, files)
	}
	s.mu.Lock()
	t := s.tasks[r.ID]
	if r.Op == "finish" {
		delete(s.tasks, r.ID)
	}
	s.mu.Unlock()
	if t == nil {
		return response{Status: Status{State: Unknown}}, nil
	}
	switch r.Op {
	case "status":
	case "wait":
		t.wait(ctx)
	case "hide":
		t.rec.Hide(r.Secrets...)
	case "recorded":
		t.recorded(t.rec.Close(r.Ended))
	case "finish":
		return response{Status: t.finish(time.Duration(r.FlushMillis) * time.Millisecond)}, nil
	default:
		return response{}, fmt.Errorf("no such request %q", r.Op)
	}
	return response{Status: t.status()}, nil
}

func (s *server) follow(r request, files []*os.File) error {
	src, err := newSource(r, files)
	if err != nil {
		closeAll(files)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[r.ID]
	if t == nil {
		if t, err = newTask(r, s.Log); err != nil {
			src.close()
			return err
		}
		s.tasks[r.ID] = t
	}
	t.follow(src)
	return nil
}

// newSource sorts the descriptors that came with a request.
func newSource(r request, files []*os.File) (*source, error) {
	src := &source{gaps: r.Gaps, early: r.Early, framed: r.Framed}
	take := func() (*os.File, error) {
		if len(files) == 0 {
			return nil, errors.New("a descriptor is missing")
		}
		f := files[0]
		files = files[1:]
		return f, nil
	}
	if r.Live {
		f, err := take()
		if err != nil {
			return nil, err
		}
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("attach connection: %w", err)
		}
		src.conn = conn
	}
	if src.length = r.EarlyLength; src.length > 0 {
		f, err := take()
		if err != nil {
			src.close()
			return nil, err
		}
		src.file = f
	}
	for i, g := range r.Gaps {
		if g.Length == 0 {
			continue
		}
		f, err := take()
		if err != nil {
			src.close()
			return nil, err
		}
		src.files[i] = f
	}
	return src, nil
}
