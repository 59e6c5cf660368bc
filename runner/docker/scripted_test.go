package docker

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// scripted is an engine of functions. A call without one panics.
type scripted struct {
	api
	inspect func() (*container.State, error)
	wait    func(ctx context.Context) (int64, error) // may block as long as ctx
	kill    func(signal string) error
	pause   func() error
	unpause func() error
	logs    func() (io.ReadCloser, error)
	list    func() []container.ContainerState // of the one container
	runner  *Runner
	calls   atomic.Int64
}

const scriptedRef = "wardyn_agent_11111111-1111-4111-8111-111111111111"

// newScripted is a Runner on a scripted engine. Its container is ours.
func newScripted(t *testing.T, s *scripted) *Runner {
	t.Helper()
	s.runner = &Runner{opts: Options{Dir: testenv.Dir(t), Log: slog.New(slog.DiscardHandler)}, api: s}
	return s.runner
}

func (s *scripted) ContainerInspect(context.Context, string) (container.InspectResponse, error) {
	s.calls.Add(1)
	st, err := s.inspect()
	if err != nil {
		return container.InspectResponse{}, err
	}
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{Name: "/" + scriptedRef, State: st},
		Config:            &container.Config{StopSignal: "SIGTERM", Labels: s.runner.reserved(scriptedRef, componentAgent)},
	}, nil
}

func (s *scripted) ContainerWait(ctx context.Context, _ string, _ container.WaitCondition) (<-chan container.WaitResponse, <-chan error) {
	done, failed := make(chan container.WaitResponse), make(chan error, 1)
	go func() {
		code, err := s.wait(ctx)
		if err != nil {
			failed <- err
			return
		}
		done <- container.WaitResponse{StatusCode: code}
	}()
	return done, failed
}

func (s *scripted) ContainerList(context.Context, container.ListOptions) (out []container.Summary, err error) {
	for _, st := range s.list() {
		out = append(out, container.Summary{Names: []string{"/" + scriptedRef}, State: st, Labels: s.runner.reserved(scriptedRef, componentAgent)})
	}
	return out, nil
}

func (s *scripted) ContainerKill(_ context.Context, _, signal string) error { return s.kill(signal) }
func (s *scripted) ContainerPause(context.Context, string) error            { return s.pause() }
func (s *scripted) ContainerUnpause(context.Context, string) error          { return s.unpause() }
func (s *scripted) ContainerLogs(context.Context, string, container.LogsOptions) (io.ReadCloser, error) {
	return s.logs()
}

const startTime, endTime = "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:06Z"

func runningState() *container.State {
	return &container.State{Status: "running", Running: true, Pid: 1, StartedAt: startTime}
}

func exitedState(code int) *container.State {
	return &container.State{Status: "exited", ExitCode: code, StartedAt: startTime, FinishedAt: endTime}
}

// httpEngine is a Runner whose engine is an HTTP handler on a unix socket: for
// what the engine's client would otherwise smooth over.
func httpEngine(t *testing.T, mux *http.ServeMux) *Runner {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	const version = "1.41"
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.URL.Path = strings.TrimPrefix(req.URL.Path, "/v"+version)
		mux.ServeHTTP(w, req)
	})}
	go srv.Serve(l)
	cl, err := client.NewClientWithOpts(client.WithHost("unix://"+path), client.WithVersion(version))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
		srv.Close()
	})
	r := &Runner{opts: Options{Dir: testenv.Dir(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, api: cl}
	r.use.own.add(scriptedRef)
	return r
}

// upgrade answers a request for a stream and hands the connection over.
func upgrade(t *testing.T, w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	return conn
}
