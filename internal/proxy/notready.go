package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
)

// notReady is the answer of a proxy that has no configuration yet.
func notReady() []byte {
	return jsonAnswer(http.StatusServiceUnavailable, "egress not ready", h1.Fields{
		{Name: "X-Wardyn-Egress", Value: "not-ready"}, {Name: "Retry-After", Value: "1"},
	}, map[string]any{
		"wardyn": "not-ready", "code": "not_ready", "retry_after_s": 1,
		"hint": "the proxy waits for its configuration; nothing passes until it is there",
	}, false, false)
}

// maxNotReady bounds the clients that are turned away at once.
const maxNotReady = 64

// ServeNotReady answers every connection at addr with a 503 until stop is
// called. An address that cannot be had is logged: clients are then refused by
// the kernel, which is no worse.
func ServeNotReady(ctx context.Context, addr string, log *slog.Logger) (stop func()) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		log.Warn("not answering while not ready", "error", err)
		return func() {}
	}
	slots := make(chan struct{}, maxNotReady)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			slots <- struct{}{}
			go func() {
				defer func() { conn.Close(); <-slots }()
				turnAway(conn)
			}()
		}
	}()
	return func() { l.Close() }
}

// turnAway reads one head, so that the answer is not lost to a reset.
func turnAway(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := h1.ReadRequest(h1.NewSource(conn)); err == nil {
		conn.Write(notReady())
	}
}
