package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errhttp"
	"github.com/docker/docker/client"
)

// rawClient is the part of the Docker client that lends its connection. The
// client's own attach calls know no deadline while the engine has not
// answered, and wrap the socket so that it cannot be handed to another process.
type rawClient interface {
	Dialer() func(context.Context) (net.Conn, error)
	HTTPClient() *http.Client
}

var _ rawClient = (*client.Client)(nil)

// errNoRaw shows only where a test's client has no connection to lend.
var errNoRaw = errors.New("this client lends no connection")

// stream is a connection that the engine handed over after its answer.
type stream struct {
	conn  net.Conn
	early []byte // read off conn together with the answer, to be consumed first
}

func (s stream) reader() io.Reader {
	if len(s.early) == 0 {
		return s.conn
	}
	return io.MultiReader(bytes.NewReader(s.early), s.conn)
}

// hijack posts a request and takes the connection over. ctx bounds it until
// the engine has answered and means nothing to the stream afterwards.
func (r *Runner) hijack(ctx context.Context, path string, query url.Values, body any) (_ stream, err error) {
	raw, ok := r.api.(rawClient)
	if !ok {
		return stream{}, errNoRaw
	}
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return stream{}, err
		}
	}
	// Without a version in the path the engine speaks its own; what is posted
	// here has not changed in any.
	u := url.URL{Scheme: "http", Host: client.DummyHost, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(payload))
	if err != nil {
		return stream{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")

	conn, err := raw.Dialer()(ctx)
	if err != nil {
		return stream{}, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	early, err := shakeHands(ctx, conn, req)
	if err != nil {
		conn.Close()
		return stream{}, err
	}
	return stream{conn: conn, early: early}, nil
}

// shakeHands sends req on conn and reads the answer's head. It returns what
// was read beyond that head.
func shakeHands(ctx context.Context, conn net.Conn, req *http.Request) (early []byte, err error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			err = ctx.Err() // it says more than the i/o timeout that it caused
		}
	}()
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, statusError(resp)
	}
	early = make([]byte, br.Buffered())
	_, err = io.ReadFull(br, early) // of the buffer, hence at once
	return early, err
}

// statusError is the error an answer with a status of failure stands for.
func statusError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxEngineText))
	var message struct{ Message string }
	if json.Unmarshal(text, &message) == nil && message.Message != "" {
		text = []byte(message.Message)
	}
	return fmt.Errorf("%w: %s", errhttp.ToNative(resp.StatusCode), engineText(string(text)))
}

// execState is an exec as the engine knows it. The client's own type reads an
// exit code of null, a process that never ran, as success.
type execState struct {
	Running     bool
	ExitCode    *int
	Pid         int
	ContainerID string
}

// inspectExec asks for the state of an exec.
func (r *Runner) inspectExec(ctx context.Context, id string) (execState, error) {
	var s execState
	raw, ok := r.api.(rawClient)
	if !ok {
		return s, errNoRaw
	}
	ctx, cancel := call(ctx)
	defer cancel()
	u := url.URL{Scheme: "http", Host: client.DummyHost, Path: "/exec/" + id + "/json"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return s, err
	}
	resp, err := raw.HTTPClient().Do(req)
	if err != nil {
		return s, wrap("inspect exec", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, wrap("inspect exec", statusError(resp))
	}
	return s, wrap("inspect exec", json.NewDecoder(resp.Body).Decode(&s))
}
