package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
)

// decisionTimeout bounds the delivery of records.
const decisionTimeout = 10 * time.Second

// wire is one kept connection to the run's own socket. Decisions are the one
// call that is made all the time, so it costs two system calls and no more.
type wire struct {
	network, addr, host string

	mu   sync.Mutex
	conn net.Conn
	src  *h1.Source
}

// post sends one request and returns the status of its answer.
func (c *Client) post(ctx context.Context, path, contentType string, body []byte) (int, error) {
	if c.wire != nil {
		return c.wire.post(ctx, path, contentType, c.bearer(), body)
	}
	resp, err := c.Do(ctx, http.MethodPost, path, bytes.NewReader(body), contentType, int64(len(body)))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, err
}

func (w *wire) post(ctx context.Context, path, contentType, token string, body []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reused := w.conn != nil
	status, err := w.try(ctx, path, contentType, token, body)
	if err != nil && reused && ctx.Err() == nil { // the plugin may have closed an idle connection
		status, err = w.try(ctx, path, contentType, token, body)
	}
	if err != nil {
		return 0, fmt.Errorf("control plane: %w", err)
	}
	return status, nil
}

func (w *wire) try(ctx context.Context, path, contentType, token string, body []byte) (status int, err error) {
	if w.conn == nil {
		if w.conn, err = (&net.Dialer{}).DialContext(ctx, w.network, w.addr); err != nil {
			w.conn = nil
			return 0, err
		}
		w.src = h1.NewSource(w.conn)
	}
	deadline, _ := ctx.Deadline()
	w.conn.SetDeadline(deadline)
	conn := w.conn
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	status, keep, err := w.roundTrip(path, contentType, token, body)
	if err != nil || !keep {
		w.conn.Close()
		w.conn, w.src = nil, nil
	}
	return status, err
}

func (w *wire) roundTrip(path, contentType, token string, body []byte) (status int, keep bool, err error) {
	b := make([]byte, 0, 256+len(token)+len(body))
	b = append(b, "POST "+path+" HTTP/1.1\r\n"...)
	b = h1.AppendFields(b, h1.Fields{{Name: "Host", Value: w.host}, {Name: "Authorization", Value: "Bearer " + token},
		{Name: "Content-Type", Value: contentType}, {Name: "Content-Length", Value: strconv.Itoa(len(body))}})
	if _, err := w.conn.Write(append(b, body...)); err != nil {
		return 0, false, err
	}
	for {
		resp, err := h1.ReadResponse(w.src, http.MethodPost)
		if err != nil {
			return 0, false, err
		}
		if resp.Status < 200 {
			continue
		}
		answer := h1.NewBody(w.src, resp.Length)
		if _, err := io.CopyN(io.Discard, answer, maxAnswer); !errors.Is(err, io.EOF) {
			return 0, false, errors.New("the answer is too long, or broken")
		}
		w.src.Release()
		return resp.Status, !resp.Close, nil
	}
}
