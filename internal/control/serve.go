package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	maxHeader = 16 << 10
	// maxBody bounds a request.
	maxBody = 64 << 10
	// maxBatch bounds several decisions in one. One is a few hundred bytes, and
	// at most the head of a request with some words around it.
	maxBatch = 1 << 20
	// maxDrain is how much of a longer one is read before the answer: a socket
	// closed over unread bytes loses the answer too.
	maxDrain = 8 << 20
	// tokenLife is what a renewal promises. The token is good as long as the
	// run; the sidecar comes back half-way, which shows that both live.
	tokenLife = time.Hour
)

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
	inside bool // the sandbox may ask too
	most   int  // bytes of body; 0 is maxBody
	serve  func(http.ResponseWriter, query)
	// stream serves in serve's place what is too long to be read first.
	stream func(http.ResponseWriter, *http.Request, uuid.UUID)
}

// query is a request as endpoints see it.
type query struct {
	id   uuid.UUID // from the path of those that have one
	body []byte
}

// at is where an endpoint is: a path, and whether an id follows it.
type at struct {
	path string
	byID bool
}

func (r *run) endpoints() map[at]endpoint {
	return map[at]endpoint{
		{egress.PathConfig, false}:    {method: http.MethodGet, open: true, serve: r.serveConfig},
		{egress.PathReady, false}:     {method: http.MethodPost, serve: r.serveReady},
		{egress.PathOwn, false}:       {method: http.MethodGet, serve: r.serveOwn},
		{egress.PathDecisions, false}: {method: http.MethodPost, most: maxBatch, serve: r.serveDecisions},
		{egress.PathRenew, false}:     {method: http.MethodPost, serve: r.serveRenew},
		{egress.PathInjection, true}:  {method: http.MethodGet, serve: r.serveInjection},
		{egress.PathMint, false}:      {method: http.MethodPost, serve: r.serveMint},
		{egress.PathApprovals, false}: {method: http.MethodPost, serve: r.serveRaise},
		{egress.PathApprovals, true}:  {method: http.MethodGet, inside: true, serve: r.serveApproval},
		{egress.PathRecording, true}:  {method: http.MethodPut, inside: true, stream: r.serveReported},
	}
}

// find looks a path up, with the id that may follow it.
func find(all map[at]endpoint, path string) (endpoint, uuid.UUID, bool) {
	if e, ok := all[at{path, false}]; ok {
		return e, uuid.Nil, true
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return endpoint{}, uuid.Nil, false
	}
	e, ok := all[at{path[:i], true}]
	id, err := uuid.Parse(path[i+1:])
	return e, id, ok && err == nil
}

// handler routes a run's requests. Every answer but a configuration is JSON
// with an "error", or nothing.
func (r *run) handler() http.Handler {
	all := r.endpoints()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		e, id, ok := find(all, req.URL.Path)
		most := maxBody
		if ok && e.most > 0 {
			most = e.most
		}
		if ok && e.stream != nil && req.Method == e.method && r.authorised(req) {
			e.stream(w, req, id)
			return
		}
		body, err := readBody(req, most)
		if err != nil {
			refuse(w, http.StatusBadRequest, "the body ended early")
			return
		}
		if !(ok && e.open) && !r.authorised(req) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "the run token is missing or another run's")
			return
		}
		switch {
		case !ok:
			refuse(w, http.StatusNotFound, "no such path")
		case req.Method != e.method:
			w.Header().Set("Allow", e.method)
			refuse(w, http.StatusMethodNotAllowed, "want "+e.method)
		case len(body) > most:
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d bytes at most", most))
		case req.Header.Get(egress.OnBehalf) != "" && !e.inside:
			refuse(w, http.StatusForbidden, "a sandbox is never handed a credential; the proxy adds it to the requests it is for")
		default:
			e.serve(w, query{id, body})
		}
	})
}

// readBody reads a request to its end and keeps no more of it than shows that
// it is too long.
func readBody(req *http.Request, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(req.Body, int64(most)+1))
	if err == nil && len(b) > most {
		_, err = io.CopyN(io.Discard, req.Body, maxDrain)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// authorised reports whether a request carries the run's token.
func (r *run) authorised(req *http.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return ok && r.isToken(given)
}

func (r *run) serveConfig(w http.ResponseWriter, _ query) {
	c := r.currentConfig()
	node := r.opts.Node()
	node.Listen, node.Agent, node.DecisionBatch = c.listen.String(), text(c.agent), batch
	for _, p := range r.ports().Ports() {
		node.Ports = append(node.Ports, p.Key())
	}
	r.keep.Lock()
	node.Git, node.Learn = r.owner.Git, r.owner.Learn
	for _, c := range r.owner.Credentials {
		for _, a := range c.Cleartext {
			node.Cleartext = append(node.Cleartext, a.String())
		}
	}
	r.keep.Unlock()
	answer(w, egress.SidecarConfig{Proxy: c.raw, Node: node})
}

// serveOwn says which addresses the node holds now. A sidecar that gets no list
// goes on with the one it has.
func (r *run) serveOwn(w http.ResponseWriter, _ query) {
	own, err := r.opts.Own()
	if err != nil {
		r.log.Error("the node's own addresses are not known", "error", err)
		refuse(w, http.StatusServiceUnavailable, "not known; ask again")
		return
	}
	answer(w, egress.OwnAddresses{Own: own})
}

func (r *run) serveReady(w http.ResponseWriter, _ query) {
	if err := r.markReady(); err != nil {
		r.log.Error("sidecar readiness not remembered", "error", err)
		refuse(w, http.StatusInternalServerError, "not remembered; try again")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *run) serveRenew(w http.ResponseWriter, _ query) {
	answer(w, map[string]string{
		"token":      r.currentConfig().parsed.RunToken,
		"expires_at": time.Now().Add(tokenLife).UTC().Format(time.RFC3339),
	})
}

func answer(w http.ResponseWriter, v any) { answerStatus(w, http.StatusOK, v) }

func answerStatus(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

func refuse(w http.ResponseWriter, status int, why string) {
	answerStatus(w, status, map[string]string{"error": why})
}
