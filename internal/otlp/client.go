package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	protobufType = "application/x-protobuf"
	// postTimeout bounds one request.
	postTimeout = 15 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 10
)

// errTooLarge and errRejected say that sending the same again is in vain: it
// has to be smaller, or it will never be taken.
var (
	errTooLarge = errors.New("the collector says that the request is too large (413)")
	errRejected = errors.New("the collector rejects the request (400)")
)

// laterError is a failure after which the same is sent again.
type laterError struct {
	err error
	// after is how long the collector wants to be left alone; 0 says nothing.
	after time.Duration
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// client posts to one collector.
type client struct {
	url     string
	headers func() (http.Header, error)
	hc      *http.Client
}

// post delivers a message. refused is how many of its records the collector
// took the message without, and why.
func (c *client) post(ctx context.Context, m *logs.LogsData) (refused int64, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	body, err := proto.Marshal(m)
	if err != nil {
		return 0, "", fmt.Errorf("%w: %w", errRejected, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, "", &laterError{err: err}
	}
	if c.headers != nil {
		if req.Header, err = c.headers(); err != nil {
			return 0, "", &laterError{err: err}
		}
	}
	req.Header.Set("Content-Type", protobufType)
	req.Header.Set("User-Agent", "nomad-driver-wardyn")
	resp, err := c.hc.Do(req)
	if err != nil {
		return 0, "", &laterError{err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusOK {
		if err != nil {
			return 0, "", &laterError{err: err}
		}
		refused, why = partialSuccess(answer)
		return refused, why, nil
	}
	return 0, "", failure(resp)
}

// failure says what an answer other than 200 means. Only 400 and 413 are about
// the records; everything else, a wrong path or token too, can be mended while
// the records wait.
func failure(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusBadRequest:
		return errRejected
	case http.StatusRequestEntityTooLarge:
		return errTooLarge
	}
	later := &laterError{err: fmt.Errorf("the collector answers %s", http.StatusText(resp.StatusCode))}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		later.after = time.Duration(n) * time.Second
	}
	return later
}

// partialSuccess reads an ExportLogsServiceResponse: field 1 is a message of
// the number of rejected records (1) and a text (2).
func partialSuccess(b []byte) (rejected int64, text string) {
	inner := field(b, 1, protowire.BytesType)
	if n, size := protowire.ConsumeVarint(field(inner, 1, protowire.VarintType)); size > 0 {
		rejected = int64(n)
	}
	return rejected, string(field(inner, 2, protowire.BytesType))
}

// field is the content of the first field of a number, or nil.
func field(b []byte, num protowire.Number, want protowire.Type) []byte {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil
		}
		b = b[size:]
		size = protowire.ConsumeFieldValue(n, typ, b)
		if size < 0 {
			return nil
		}
		if n == num && typ == want {
			if typ == protowire.BytesType {
				content, _ := protowire.ConsumeBytes(b)
				return content
			}
			return b[:size]
		}
		b = b[size:]
	}
	return nil
}
