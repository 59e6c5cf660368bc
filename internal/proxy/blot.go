package proxy

import (
	"errors"
	"io"
	"net/http"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/redact"
)

// blot takes the injected credential out of an answer's head, be it final or
// interim. Bodies are filtered as they pass; frames of a WebSocket are not
// looked into.
func (x *exchange) blot(resp h1.Response) h1.Response {
	if x.out.inject == nil {
		return resp
	}
	resp.Reason = x.out.inject.forms.String(resp.Reason)
	resp.Fields = blotFields(resp.Fields, x.out.inject.forms)
	return resp
}

// blotFields masks values, and drops fields whose name is a secret.
func blotFields(fields h1.Fields, forms *redact.Patterns) h1.Fields {
	out := fields[:0]
	for _, f := range fields {
		if !forms.InName(f.Name) {
			out = append(out, h1.Field{Name: f.Name, Value: forms.String(f.Value)})
		}
	}
	return out
}

// blotHeader does the same for the standard library's fields; nothing where
// there was no credential.
func blotHeader(h http.Header, cred *credential) {
	if cred == nil {
		return
	}
	for name, values := range h {
		if cred.forms.InName(name) {
			delete(h, name)
		}
		for i := range values {
			values[i] = cred.forms.String(values[i])
		}
	}
}

// answerBody is the body of an answer, decoded where it has a coding and
// filtered where a credential was sent, whatever the origin calls its type.
func (x *exchange) answerBody(resp h1.Response, coding string) messageBody {
	b := h1.NewBody(x.up.Src, resp.Length)
	if x.out.inject == nil {
		return b
	}
	forms := x.out.inject.forms
	out := &blottedBody{Body: b, blotting: blotting{rd: b}, forms: forms}
	if coding != "" {
		out.rd = newDecoder(b, coding)
	}
	out.filter = redact.NewFilter(forms, coding == "" && resp.Length >= 0)
	return out
}

// answerReader is the same for an answer over HTTP/2. The head is changed to
// what it then describes.
func answerReader(resp *http.Response, cred *credential, coding string) io.Reader {
	if cred == nil {
		return resp.Body
	}
	out := &blotting{rd: resp.Body}
	if coding != "" && resp.Request.Method != http.MethodHead {
		out.rd = newDecoder(resp.Body, coding)
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
	}
	out.filter = redact.NewFilter(cred.forms, resp.ContentLength >= 0)
	return out
}

// blottedBody is a body without the credential that its request carried, over
// HTTP/1. It is never spliced.
type blottedBody struct {
	*h1.Body
	blotting
	forms *redact.Patterns
}

// Read returns filtered bytes.
func (b *blottedBody) Read(p []byte) (int, error) { return b.blotting.Read(p) }

// Done reports whether the last filtered byte was read.
func (b *blottedBody) Done() bool { return len(b.out) == 0 && errors.Is(b.end, io.EOF) }

// Left is small whatever is left, so that the body is read and not spliced.
func (b *blottedBody) Left() int64 { return 0 }

// TrailerFields returns filtered trailers.
func (b *blottedBody) TrailerFields() h1.Fields { return blotFields(b.Body.Trailers, b.forms) }
