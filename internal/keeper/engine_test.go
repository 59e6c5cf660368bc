package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// engine reads the output of containers of a real engine.
type engine struct {
	*client.Client
	socket string
}

func (e engine) AttachOutput(ctx context.Context, ref string) (runner.OutputStream, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", e.socket)
	if err != nil {
		return runner.OutputStream{}, err
	}
	fmt.Fprintf(conn, "POST /containers/%s/attach?stream=1&stdout=1&stderr=1 HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", ref)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		conn.Close()
		return runner.OutputStream{}, fmt.Errorf("attach: %v, %v", resp, err)
	}
	early, _ := r.Peek(r.Buffered())
	return runner.OutputStream{Conn: conn, Early: early, Framed: true}, nil
}

// errEnded: attached while it ended, which the engine lets hang for ever.
var errEnded = errors.New("attach: it has ended")

// resume takes up the output of a container that may end at that moment.
func (e engine) resume(ctx context.Context, t *testing.T, w *world, id string) {
	t.Helper()
	for {
		alive := e.alive(t, id)
		got, err := w.Resume(ctx, w.task, id, alive, running{e, func() bool { return e.alive(t, id) }})
		if alive && errors.Is(err, errEnded) {
			continue
		}
		if err != nil || got.Lost != 0 {
			t.Fatalf("lost %d, %v", got.Lost, err)
		}
		return
	}
}

// running attaches to what still runs then, as runner.OutputReader has it.
type running struct {
	engine
	alive func() bool
}

func (r running) AttachOutput(ctx context.Context, ref string) (runner.OutputStream, error) {
	o, err := r.engine.AttachOutput(ctx, ref)
	if err == nil && !r.alive() {
		o.Conn.Close()
		err = errEnded
	}
	return o, err
}

func (e engine) ReadLog(ctx context.Context, ref, name string) (io.ReadCloser, error) {
	framed, err := e.ContainerLogs(ctx, ref, container.LogsOptions{ShowStdout: name == "stdout", ShowStderr: name == "stderr"})
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		defer framed.Close()
		_, err := stdcopy.StdCopy(w, w, framed)
		w.CloseWithError(err)
	}()
	return r, nil
}

// TestK8SeamOnAnEngine kills the keeper again and again under a task that
// prints 80,000 lines, as fast as it can and a few at a time: every line is
// there, in order, and what came twice is a chunk a kill.
func TestK8SeamOnAnEngine(t *testing.T) {
	endpoint := testenv.Engine(t)
	socket, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		t.Fatalf("engine at %s: a local socket is needed", endpoint)
	}
	e := engine{testenv.Client(t, endpoint), socket}
	image := testenv.Image(t)
	for _, rt := range testenv.Runtimes(t) {
		for pace, script := range map[string]string{
			"at full speed": `for s in 1 2; do seq 40000 | sed "s/^/$s /" >&$s & done; wait`,
			"in bursts":     `for b in $(seq 0 19); do for s in 1 2; do seq $((b*2000+1)) $((b*2000+2000)) | sed "s/^/$s /" >&$s; done; sleep 0.05; done`,
		} {
			t.Run(rt+" "+pace, func(t *testing.T) { killOnEngine(t, e, image, rt, script) })
		}
	}
}

func killOnEngine(t *testing.T, e engine, image, rt, script string) {
	const lines, kills = 40_000, 3
	w := newWorld(t)
	out, errs := collectAll(t, w.task.Stdout), collectAll(t, w.task.Stderr)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := e.ContainerCreate(ctx, &container.Config{Image: image, Cmd: []string{"sh", "-c", script}},
		&container.HostConfig{Runtime: rt, NetworkMode: "none", LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "20m", "max-file": "5"}}}, nil, nil, "")
	must(t, err)
	t.Cleanup(func() {
		must(t, e.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}))
	})
	o, err := e.AttachOutput(ctx, c.ID)
	must(t, err)
	must(t, w.Sink(w.task).Follow(ctx, "", o))
	must(t, e.ContainerStart(ctx, c.ID, container.StartOptions{}))
	for n := range kills {
		for { // well under way
			st, err := w.Status(ctx, w.task.ID)
			if err != nil {
				pos, perr := ReadPosition(w.task.Position)
				t.Fatalf("before kill %d: %v; delivered %d and %d (%v), running %v", n, err, pos[stdout].Delivered, pos[stderr].Delivered, perr, e.alive(t, c.ID))
			}
			if st.Delivered[stdout] > int64(n+1)*80_000 || st.State == Ended {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		kill(t, w.Socket)
		e.resume(ctx, t, w, c.ID)
	}
	for { // an attach may end with its keeper's life: to the end, as the plugin does it
		st, err := w.Wait(ctx, w.task.ID)
		if err == nil && st.State == Ended && !e.alive(t, c.ID) {
			break
		}
		if err != nil && !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
		e.resume(ctx, t, w, c.ID)
	}
	must(t, w.Finish(ctx, w.task, 10*time.Second))
	exact(t, "1", out.lines("1", lines), lines, kills)
	exact(t, "2", errs.lines("2", lines), lines, kills)
}

func (e engine) alive(t *testing.T, id string) bool {
	c, err := e.ContainerInspect(t.Context(), id)
	must(t, err)
	return c.State.Running
}
