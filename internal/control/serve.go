package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	maxHeader = 16 << 10
	// maxBody bounds a request. A decision is a few hundred bytes.
	maxBody = 64 << 10
	// maxDrain is how much of a longer one is read before the answer: a socket
	// closed over unread bytes loses the answer too.
	maxDrain = 8 << 20
	// tokenLife is what a renewal promises. The token is good as long as the
	// run; the sidecar comes back half-way, which shows that both live.
	tokenLife = time.Hour
)

// features are the paths of the protocol that this server does not have, each
// with what it would be good for.
var features = map[string]string{
	egress.PathApprovals: "approvals",
	egress.PathInjection: "credential injection",
	egress.PathMint:      "credential minting",
	egress.PathRecording: "brokered recordings",
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// endpoint is one path of the protocol.
type endpoint struct {
	method string
	open   bool // without a token: it is where the token comes from
	serve  func(http.ResponseWriter, []byte)
}

// handler routes a run's requests. Every answer but a configuration is JSON
// with an "error", or nothing.
func (r *run) handler() http.Handler {
	paths := map[string]endpoint{
		egress.PathConfig:    {http.MethodGet, true, r.serveConfig},
		egress.PathReady:     {http.MethodPost, false, r.serveReady},
		egress.PathDecisions: {http.MethodPost, false, r.serveDecision},
		egress.PathRenew:     {http.MethodPost, false, r.serveRenew},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := readBody(req)
		if err != nil {
			refuse(w, http.StatusBadRequest, "the body ended early")
			return
		}
		e, ok := paths[req.URL.Path]
		if !(ok && e.open) && !r.authorised(req) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "the run token is missing or another run's")
			return
		}
		switch {
		case ok && req.Method != e.method:
			w.Header().Set("Allow", e.method)
			refuse(w, http.StatusMethodNotAllowed, "want "+e.method)
		case ok && len(body) > maxBody:
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d bytes at most", maxBody))
		case ok:
			e.serve(w, body)
		case featureOf(req.URL.Path) != "":
			refuse(w, http.StatusNotImplemented, featureOf(req.URL.Path)+" is not enabled on this node")
		default:
			refuse(w, http.StatusNotFound, "no such path")
		}
	})
}

// readBody reads a request to its end and keeps no more of it than shows that
// it is too long.
func readBody(req *http.Request) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(b) > maxBody {
		_, err = io.CopyN(io.Discard, req.Body, maxDrain)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

func featureOf(path string) string {
	for p, f := range features {
		if path == p || strings.HasPrefix(path, p+"/") {
			return f
		}
	}
	return ""
}

// authorised compares digests, which takes the same time whatever was sent.
func (r *run) authorised(req *http.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	want := r.currentConfig().parsed.RunToken
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && ok && want != ""
}

func (r *run) serveConfig(w http.ResponseWriter, _ []byte) {
	c := r.currentConfig()
	node := r.opts.Node()
	node.Listen = c.listen.String()
	answer(w, egress.SidecarConfig{Proxy: c.raw, Node: node})
}

func (r *run) serveReady(w http.ResponseWriter, _ []byte) {
	if err := r.markReady(); err != nil {
		r.log.Error("sidecar readiness not remembered", "error", err)
		refuse(w, http.StatusInternalServerError, "not remembered; try again")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *run) serveRenew(w http.ResponseWriter, _ []byte) {
	answer(w, map[string]string{
		"token":      r.currentConfig().parsed.RunToken,
		"expires_at": time.Now().Add(tokenLife).UTC().Format(time.RFC3339),
	})
}

// serveDecision acknowledges a record once it is kept. What can never be kept
// is refused for good; anything else the sidecar sends again.
func (r *run) serveDecision(w http.ResponseWriter, body []byte) {
	var l egress.DecisionLog
	if err := json.Unmarshal(body, &l); err != nil {
		refuse(w, http.StatusBadRequest, "not a decision record: "+err.Error())
		return
	}
	if err := r.judge(l); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if err := r.record(l); err != nil {
		r.log.Error("decision not recorded; the sidecar will send it again", "error", err)
		refuse(w, http.StatusInsufficientStorage, "not recorded; try again")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// judge refuses records that are no decision of this run.
func (r *run) judge(l egress.DecisionLog) error {
	switch {
	case l.Request.RunID != r.id:
		return errors.New("the record is another run's")
	case l.Decision != egress.Allow && l.Decision != egress.Deny && l.Decision != egress.Pending:
		return fmt.Errorf("decision %q is none", l.Decision)
	case l.Request.Time.IsZero():
		return errors.New("the record has no time")
	}
	if l.Flow == nil {
		return nil
	}
	switch l.Flow.Kind {
	case "", kindDecision, kindEnd, kindGap:
		return nil
	}
	return fmt.Errorf("kind %q is none", l.Flow.Kind)
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	b, _ := json.Marshal(map[string]string{"error": why})
	w.Write(b)
}
