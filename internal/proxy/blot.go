package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/redact"
)

// blot takes the injected credential out of an answer's head. Bodies are
// filtered as they pass; frames of a WebSocket are not looked into.
func (x *exchange) blot(resp h1.Response) h1.Response {
	if x.out.inject == nil {
		return resp
	}
	resp.Reason = x.out.inject.forms.String(resp.Reason)
	for i := range resp.Fields {
		resp.Fields[i].Value = x.out.inject.forms.String(resp.Fields[i].Value)
	}
	return resp
}

// answerBody is the body of an answer, filtered where a credential was sent.
// Git's own formats are left alone: no server puts a token into a pack.
func (x *exchange) answerBody(resp h1.Response) messageBody {
	b := h1.NewBody(x.up.Src, resp.Length)
	kind, _ := resp.Fields.Get("Content-Type")
	if x.out.inject == nil || strings.HasPrefix(kind, "application/x-git-") {
		return b
	}
	return &blottedBody{Body: b, forms: x.out.inject.forms, filter: redact.NewFilter(x.out.inject.forms)}
}

// blottedBody is an answer's body without the credential that its request
// carried. It is never spliced.
type blottedBody struct {
	*h1.Body
	forms  redact.Patterns
	filter *redact.Filter
	out    []byte
	end    error
}

// Read returns filtered bytes.
func (b *blottedBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		n, err := b.Body.Read(p)
		b.end = err
		b.out = b.filter.Feed(p[:n], err != nil || b.Body.Done())
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// Done reports whether the last filtered byte was read.
func (b *blottedBody) Done() bool { return len(b.out) == 0 && !b.filter.Held() && b.Body.Done() }

// Left is small whatever is left, so that the body is read and not spliced.
func (b *blottedBody) Left() int64 { return 0 }

// TrailerFields returns filtered trailers.
func (b *blottedBody) TrailerFields() h1.Fields {
	for i := range b.Body.Trailers {
		b.Body.Trailers[i].Value = b.forms.String(b.Body.Trailers[i].Value)
	}
	return b.Body.Trailers
}

// blottedReader does the same for a body of the standard library.
type blottedReader struct {
	rd     io.Reader
	filter *redact.Filter
	out    []byte
	end    error
}

func (b *blottedReader) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		n, err := b.rd.Read(p)
		b.end = err
		b.out = b.filter.Feed(p[:n], errors.Is(err, io.EOF))
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func blotHeader(h http.Header, forms redact.Patterns) {
	for _, values := range h {
		for i := range values {
			values[i] = forms.String(values[i])
		}
	}
}
