package control

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

const (
	// castType is the media type of a recording. A recorder that delivers while
	// it records adds the parameters session, which names the recording, and
	// offset, the place in its own file from which the piece is. Without them
	// the request has all of a recording.
	castType = "application/x-asciicast"
	// maxReportedUpload bounds one request, as the sidecar's route does.
	maxReportedUpload = 100 << 20
)

// Reported is what becomes of recordings that a sandbox makes of itself. They
// are the sandbox's own word, and are kept and labelled as that.
type Reported struct {
	Title string
	Limit int64 // of one, in bytes; 0 is cast.DefaultLimit
}

// piece is a part of a recording as it arrives.
type piece struct {
	session string
	offset  int64
	whole   bool // nothing more will come
}

var sessionName = regexp.MustCompile(`^[0-9a-f]{8,32}$`)

// readPiece reads what a content type says of a body.
func readPiece(contentType string) (piece, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != castType {
		return piece{}, fmt.Errorf("want the content type %s", castType)
	}
	if params["session"] == "" {
		return piece{session: uuid.NewString()[:8], whole: true}, nil
	}
	offset, err := strconv.ParseInt(params["offset"], 10, 64)
	if err != nil || offset < 0 || !sessionName.MatchString(params["session"]) {
		return piece{}, errors.New("session: want 8 to 32 hexadecimal digits; offset: want a number")
	}
	return piece{session: params["session"], offset: offset}, nil
}

// serveReported takes a recording, or a piece of one, from inside the sandbox.
// What was taken before is passed over, so that a recorder may send a piece
// again whose answer it has not seen; after a gap it is told where to go on.
func (r *run) serveReported(w http.ResponseWriter, req *http.Request, id uuid.UUID) {
	r.keep.Lock()
	owner := r.owner
	r.keep.Unlock()
	if after, ok := r.uploads.admit(); !ok {
		refuseTooFast(w, after)
		return
	}
	defer r.uploads.leave()
	body := &upload{from: http.MaxBytesReader(w, req.Body, maxReportedUpload), pace: r.uploads}
	// What a refusal leaves unread would be lost with the answer.
	defer io.CopyN(io.Discard, body, maxDrain)
	p, err := readPiece(req.Header.Get("Content-Type"))
	switch {
	case id != r.id:
		refuse(w, http.StatusNotFound, "no such run")
		return
	case owner.Reported == nil || owner.FilesDir == "":
		refuse(w, http.StatusForbidden, "recordings of this task are not kept; its job asks for one with record = true")
		return
	case err != nil:
		refuse(w, http.StatusUnsupportedMediaType, err.Error())
		return
	}
	secrets := append(r.currentConfig().secrets(), owner.SecretValues()...)
	got, err := r.reported.take(reportedInto{owner, id, secrets}, p, body)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errGap):
		answerStatus(w, http.StatusConflict, map[string]any{"error": err.Error(), "offset": got})
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d bytes at most", large.Limit))
	case errors.Is(err, cast.ErrNoCast):
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	case errors.Is(err, errNoRoom):
		refuse(w, http.StatusInsufficientStorage, err.Error())
	case body.broke != nil:
		refuse(w, http.StatusBadRequest, "the body ended early")
	case err != nil:
		r.log.Error("a recording that the sandbox made is not kept", "error", err)
		refuse(w, http.StatusInternalServerError, "not kept; try again")
	default:
		answer(w, map[string]int64{"offset": got})
	}
}
